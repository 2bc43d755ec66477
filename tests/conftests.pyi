# ruff: noqa: F401
# mypy knows a module by one name: each conftest.py is checked because it is imported by its folder here.

import tests.agent.conftest
import tests.boards.conftest
import tests.conftest
import tests.emulated.conftest
import tests.faults.conftest
import tests.guest.conftest
import tests.guest_ssh.conftest
import tests.images.conftest
import tests.imports.conftest
import tests.packages.conftest
import tests.recordings.conftest
import tests.report.conftest
import tests.run.conftest
import tests.scenario.conftest
import tests.ssh.conftest
import tests.testbed.conftest
import tests.whole.conftest
