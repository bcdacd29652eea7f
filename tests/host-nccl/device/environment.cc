// Variables of NCCL, set so that it uses only what the device side implements. They are set when the library is loaded,
// before NCCL reads its environment. The user's own values have precedence. With them, a kernel may be unsupported.
#include <cstdlib>

namespace {

struct Setting {
  const char *name, *value;
};

constexpr Setting kSettings[] = {
    // The protocols LL and LL128 are not implemented.
    {"NCCL_PROTO", "Simple"},
    {"NCCL_P2P_LL_THRESHOLD", "0"},
    // CollNet, NVLS and PAT are not implemented.
    {"NCCL_ALGO", "Ring,Tree"},
    {"NCCL_NVLS_ENABLE", "0"},
    {"NCCL_PAT_ENABLE", "0"},
    // Symmetric kernels and copies by copy engines need virtual memory management, which the driver does not have.
    {"NCCL_CUMEM_ENABLE", "0"},
    {"NCCL_CUMEM_HOST_ENABLE", "0"},
    {"NCCL_WIN_ENABLE", "0"},
    // Peers and the network do not access the user's buffers.
    {"NCCL_LOCAL_REGISTER", "0"},
    {"NCCL_GRAPH_REGISTER", "0"},
    {"NCCL_LEGACY_CUDA_REGISTER", "0"},
    // The proxy does not copy memory.
    {"NCCL_P2P_USE_CUDA_MEMCPY", "0"},
    {"NCCL_SHM_USE_CUDA_MEMCPY", "0"},
    // The network is sockets on this machine.
    {"NCCL_IB_DISABLE", "1"},
    {"NCCL_SOCKET_IFNAME", "lo"},
    // Each channel is a thread of the host.
    {"NCCL_MAX_NCHANNELS", "4"},
};

__attribute__((constructor)) void apply() {
  for (const Setting& setting : kSettings) setenv(setting.name, setting.value, 0);
}

}  // namespace
