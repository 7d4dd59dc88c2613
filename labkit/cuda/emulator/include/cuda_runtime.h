// Nothing to add: the emulator knows these names without an #include.
#pragma once
