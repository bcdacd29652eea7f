// The log of the stand-ins: calls that they do not support, once each. HOST_NCCL_LOG names the file; without it, the
// stand-ins are silent.
#pragma once

namespace host_nccl {

__attribute__((visibility("default"))) void logOnce(const char* what);

}  // namespace host_nccl
