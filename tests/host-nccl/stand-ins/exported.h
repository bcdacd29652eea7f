// Marks a function of the stand-ins' interfaces.
#pragma once

#define EXPORTED extern "C" __attribute__((visibility("default")))
