/* Double of NVML, for tests: four GPUs. It proves nothing about the real library.
 *   0  works at its highest clock
 *   1  is hot: its clocks are reduced
 *   2  is idle, and has no power sensor
 *   3  is lost after it was named
 * NVML_DOUBLE_INIT is "hang", or the result of the initialisation. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct pci_info {
    char bus_id_legacy[16];
    unsigned domain, bus, device, pci_device_id, pci_sub_system_id;
    char bus_id[32];
};
struct utilization { unsigned gpu, memory; };
struct memory { unsigned version; unsigned long long total, reserved, free, used; };

enum { SUCCESS = 0, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, GPU_IS_LOST = 15, GPUS = 4 };
enum { THERMAL_SLOWDOWN = 0x20, IDLE = 1 };
static char devices[GPUS];
static const char* const addresses[GPUS] = {"00000000:17:00.0", "00000000:18:00.0", "00000000:19:00.0",
                                            "00000000:1A:00.0"};

static int number(const void* device) { return (int)((const char*)device - devices); }
static int lost(const void* device) { return number(device) == 3; }

static int text(char* to, unsigned length, const char* from) {
    if (strlen(from) >= length) return INVALID_ARGUMENT;
    strcpy(to, from);
    return SUCCESS;
}

int nvmlInit_v2(void) {
    const char* outcome = getenv("NVML_DOUBLE_INIT");
    if (outcome == 0) return SUCCESS;
    /* A GPU that does not answer. */
    if (strcmp(outcome, "hang") == 0) for (;;) pause();
    return atoi(outcome);
}
int nvmlShutdown(void) { return SUCCESS; }
int nvmlSystemGetDriverVersion(char* version, unsigned length) { return text(version, length, "570.00"); }

int nvmlDeviceGetCount_v2(unsigned* count) {
    *count = GPUS;
    return SUCCESS;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
    if (index >= GPUS) return INVALID_ARGUMENT;
    *device = &devices[index];
    return SUCCESS;
}

int nvmlDeviceGetHandleByPciBusId_v2(const char* address, void** device) {
    for (int index = 0; index < GPUS; index++) {
        if (strcmp(address, addresses[index]) != 0) continue;
        *device = &devices[index];
        return lost(*device) ? GPU_IS_LOST : SUCCESS;
    }
    return NOT_FOUND;
}

int nvmlDeviceGetPciInfo_v3(void* device, struct pci_info* info) {
    memset(info, 0, sizeof *info);
    strcpy(info->bus_id, addresses[number(device)]);
    return SUCCESS;
}

int nvmlDeviceGetName(void* device, char* name, unsigned length) {
    (void)device;
    return text(name, length, "Double of a GPU");
}

int nvmlDeviceGetUUID(void* device, char* uuid, unsigned length) {
    (void)device;
    return text(uuid, length, "GPU-00000000-0000-0000-0000-000000000000");
}

int nvmlDeviceGetMaxClockInfo(void* device, unsigned type, unsigned* mhz) {
    (void)device;
    *mhz = type == 2 ? 2619 : 1980;
    return SUCCESS;
}

int nvmlDeviceGetClockInfo(void* device, unsigned type, unsigned* mhz) {
    static const unsigned clocks[GPUS] = {1980, 1200, 345, 0};
    *mhz = type == 2 ? 2619 : clocks[number(device)];
    return SUCCESS;
}

int nvmlDeviceGetUtilizationRates(void* device, struct utilization* rates) {
    rates->gpu = number(device) == 2 ? 0 : 97;
    rates->memory = 0;
    return SUCCESS;
}

int nvmlDeviceGetMemoryInfo_v2(void* device, struct memory* memory) {
    (void)device;
    memory->total = 80ull << 30;
    memory->used = 30ull << 30;
    memory->reserved = 1ull << 30;
    memory->free = memory->total - memory->used - memory->reserved;
    return SUCCESS;
}

int nvmlDeviceGetPowerUsage(void* device, unsigned* milliwatts) {
    if (number(device) == 2) return NOT_SUPPORTED;
    *milliwatts = 512500;
    return SUCCESS;
}

int nvmlDeviceGetTemperature(void* device, unsigned sensor, unsigned* celsius) {
    if (sensor != 0) return INVALID_ARGUMENT;
    *celsius = number(device) == 1 ? 91 : 60;
    return SUCCESS;
}

int nvmlDeviceGetCurrentClocksThrottleReasons(void* device, unsigned long long* reasons) {
    static const unsigned long long of[GPUS] = {0, THERMAL_SLOWDOWN, IDLE, 0};
    *reasons = of[number(device)];
    return SUCCESS;
}
