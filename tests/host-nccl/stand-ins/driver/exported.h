// Marks a function of the driver's interface.
#pragma once

#define EXPORTED extern "C" __attribute__((visibility("default")))
