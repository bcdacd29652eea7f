/* Double of NVML, for tests: two GPUs with four links each. One link of the second GPU is down. It proves nothing about
 * the real library. */
#include <string.h>

struct pci_info {
    char bus_id_legacy[16];
    unsigned domain, bus, device, pci_device_id, pci_sub_system_id;
    char bus_id[32];
};

enum { SUCCESS = 0, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, LINKS = 4 };
static int opened;
static char devices[2];

int nvmlInit_v2(void) { opened++; return SUCCESS; }
int nvmlShutdown(void) { opened--; return SUCCESS; }
int nvml_double_opened(void) { return opened; }

int nvmlDeviceGetCount_v2(unsigned *count) {
    *count = 2;
    return SUCCESS;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) {
    if (index > 1) return INVALID_ARGUMENT;
    *device = &devices[index];
    return SUCCESS;
}

int nvmlDeviceGetPciInfo_v3(void *device, struct pci_info *info) {
    memset(info, 0, sizeof *info);
    strcpy(info->bus_id, device == &devices[0] ? "00000000:17:00.0" : "00000000:9B:00.0");
    return SUCCESS;
}

int nvmlDeviceGetNvLinkState(void *device, unsigned link, unsigned *state) {
    if (link >= LINKS) return NOT_SUPPORTED;
    *state = !(device == &devices[1] && link == 2);
    return SUCCESS;
}

int nvmlDeviceGetNvLinkVersion(void *device, unsigned link, unsigned *version) {
    if (link >= LINKS || device == 0) return NOT_SUPPORTED;
    *version = 7;
    return SUCCESS;
}
