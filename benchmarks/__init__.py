"""What a call costs, told in ways that do not depend on the machine; see the README beside this file."""
