/* A library with NVML's symbols that says what a script file says, for tests on machines without a GPU.
 *
 * NVML_STAND_IN names the file; it is read again at every call. Its lines:
 *     init CODE | delay MILLISECONDS
 *     gpu INDEX STATUS UUID NAME UTILISATION USED TOTAL MILLIWATTS CELSIUS REASONS ECC REMAP_FAILED UNSUPPORTED
 *     process INDEX PID BYTES         (holds memory of the device)
 *     xid NUMBER INDEX CODE          (numbers grow; an event set tells each that is added after it was made, once)
 * Spaces of a name are written as underscores. STATUS is what calls with the device's handle return; UNSUPPORTED is a mask:
 * 1 utilisation, 2 memory, 4 power, 8 temperature, 16 throttle reasons, 32 ECC, 64 remapped rows, 128 events, 256 processes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define DEVICES 16
#define OK 0
#define INVALID_ARGUMENT 2
#define NOT_SUPPORTED 3
#define NOT_FOUND 6
#define DRIVER_NOT_LOADED 9
#define TIMEOUT 10

struct gpu {
    int present, status, utilisation, milliwatts, celsius, remap_failed, unsupported;
    unsigned long long used, total, reasons, ecc;
    char uuid[96], name[96];
};
struct state {
    int init, delay, count;
    struct gpu gpus[DEVICES];
};
struct events { long told; };
struct event { void *device; unsigned long long type, data; unsigned int gpu_instance, compute_instance; };

static char handles[DEVICES];

static void wait_milliseconds(long milliseconds) {
    struct timespec pause = {milliseconds / 1000, (milliseconds % 1000) * 1000000L};
    nanosleep(&pause, NULL);
}

static FILE *script(void) {
    const char *path = getenv("NVML_STAND_IN");
    return path ? fopen(path, "r") : NULL;
}

static struct state look(void) {
    struct state state = {DRIVER_NOT_LOADED, 0, 0};
    FILE *file = script();
    char line[512];
    if (!file) return state;
    while (fgets(line, sizeof line, file)) {
        struct gpu gpu = {1};
        int index;
        if (sscanf(line, "init %d", &state.init) == 1 || sscanf(line, "delay %d", &state.delay) == 1) continue;
        if (sscanf(line, "gpu %d %d %95s %95s %d %llu %llu %d %d %llu %llu %d %d", &index, &gpu.status, gpu.uuid, gpu.name,
                   &gpu.utilisation, &gpu.used, &gpu.total, &gpu.milliwatts, &gpu.celsius, &gpu.reasons, &gpu.ecc,
                   &gpu.remap_failed, &gpu.unsupported) == 13 && index >= 0 && index < DEVICES) {
            for (char *at = gpu.name; *at; at++) if (*at == '_') *at = ' ';
            state.gpus[index] = gpu;
            if (index >= state.count) state.count = index + 1;
        }
    }
    fclose(file);
    if (state.delay) wait_milliseconds(state.delay);
    return state;
}

/* The device of a handle, or why it cannot be asked. */
static int ask(void *handle, int function, struct gpu *found) {
    long index = (char *)handle - handles;
    struct state state = look();
    if (index < 0 || index >= DEVICES) return INVALID_ARGUMENT;
    *found = state.gpus[index];
    if (!found->present) return NOT_FOUND;
    if (found->status) return found->status;
    return found->unsupported & function ? NOT_SUPPORTED : OK;
}

#define ASKED(handle, function) struct gpu gpu; int refused = ask(handle, function, &gpu); if (refused) return refused

int nvmlInitWithFlags(unsigned int flags) { (void)flags; return look().init; }
int nvmlInit_v2(void) { return look().init; }
int nvmlShutdown(void) { return OK; }
const char *nvmlErrorString(int code) { return code == 15 ? "GPU is lost" : "stand-in"; }

int nvmlSystemGetDriverVersion(char *text, unsigned int length) { snprintf(text, length, "550.00"); return OK; }
int nvmlSystemGetCudaDriverVersion_v2(int *version) { *version = 12040; return OK; }
int nvmlDeviceGetCount_v2(unsigned int *count) { *count = look().count; return OK; }

int nvmlDeviceGetHandleByIndex_v2(unsigned int index, void **handle) {
    struct gpu gpu;
    int refused = index < DEVICES ? ask(&handles[index], 0, &gpu) : INVALID_ARGUMENT;
    if (!refused) *handle = &handles[index];
    return refused;
}

int nvmlDeviceGetHandleByUUID(const char *uuid, void **handle) {
    struct state state = look();
    for (int index = 0; index < state.count; index++) {
        if (!state.gpus[index].present || strcmp(state.gpus[index].uuid, uuid)) continue;
        *handle = &handles[index];
        return state.gpus[index].status;
    }
    return NOT_FOUND;
}

int nvmlDeviceGetUUID(void *handle, char *text, unsigned int length) {
    ASKED(handle, 0);
    snprintf(text, length, "%s", gpu.uuid);
    return OK;
}
int nvmlDeviceGetName(void *handle, char *text, unsigned int length) {
    ASKED(handle, 0);
    snprintf(text, length, "%s", gpu.name);
    return OK;
}
int nvmlDeviceGetMinorNumber(void *handle, unsigned int *number) {
    ASKED(handle, 0);
    *number = (char *)handle - handles;
    return OK;
}
int nvmlDeviceGetUtilizationRates(void *handle, unsigned int *rates) {
    ASKED(handle, 1);
    rates[0] = rates[1] = gpu.utilisation;
    return OK;
}
int nvmlDeviceGetMemoryInfo(void *handle, unsigned long long *memory) {
    ASKED(handle, 2);
    memory[0] = gpu.total;
    memory[1] = gpu.total - gpu.used;
    memory[2] = gpu.used;
    return OK;
}
struct process { unsigned int pid; unsigned long long used; unsigned int gpu_instance, compute_instance; };
int nvmlDeviceGetComputeRunningProcesses_v3(void *handle, unsigned int *count, struct process *told) {
    unsigned int room = *count, index, pid;
    unsigned long long used;
    char line[512];
    FILE *file;
    ASKED(handle, 256);
    file = script();
    *count = 0;
    while (file && fgets(line, sizeof line, file)) {
        if (sscanf(line, "process %u %u %llu", &index, &pid, &used) != 3 || handles + index != (char *)handle) continue;
        if (told && *count < room) told[*count] = (struct process){pid, used, ~0u, ~0u};
        ++*count;
    }
    if (file) fclose(file);
    return *count > (told ? room : 0) ? 7 : OK; /* 7: insufficient size. */
}
int nvmlDeviceGetPowerUsage(void *handle, unsigned int *power) { ASKED(handle, 4); *power = gpu.milliwatts; return OK; }
int nvmlDeviceGetTemperature(void *handle, int sensor, unsigned int *celsius) {
    (void)sensor;
    ASKED(handle, 8);
    *celsius = gpu.celsius;
    return OK;
}
int nvmlDeviceGetCurrentClocksThrottleReasons(void *handle, unsigned long long *reasons) {
    ASKED(handle, 16);
    *reasons = gpu.reasons;
    return OK;
}
int nvmlDeviceGetTotalEccErrors(void *handle, int type, int counter, unsigned long long *count) {
    (void)counter;
    ASKED(handle, 32);
    *count = type == 1 ? gpu.ecc : 0; /* 1: uncorrected. */
    return OK;
}
int nvmlDeviceGetRemappedRows(void *handle, unsigned int *ok, unsigned int *bad, unsigned int *pending, unsigned int *failed) {
    ASKED(handle, 64);
    *ok = *bad = *pending = 0;
    *failed = gpu.remap_failed;
    return OK;
}

/* The first event after the last one told: its number, or 0. */
static long next_event(long told, long *newest, int *index, unsigned long long *code) {
    FILE *file = script();
    char line[512];
    long found = 0;
    if (!file) return 0;
    while (fgets(line, sizeof line, file)) {
        long number;
        int device;
        unsigned long long xid;
        if (sscanf(line, "xid %ld %d %llu", &number, &device, &xid) != 3) continue;
        if (newest && number > *newest) *newest = number;
        if (number > told && !found) found = number, *index = device, *code = xid;
    }
    fclose(file);
    return found;
}

int nvmlEventSetCreate(void **set) {
    struct events *events = calloc(1, sizeof *events);
    int index;
    unsigned long long code;
    if (!events) return 20;
    next_event(0, &events->told, &index, &code);
    *set = events;
    return OK;
}
int nvmlDeviceRegisterEvents(void *handle, unsigned long long types, void *set) {
    (void)types; (void)set;
    ASKED(handle, 128);
    return OK;
}
int nvmlEventSetFree(void *set) { free(set); return OK; }
int nvmlEventSetWait_v2(void *set, struct event *event, unsigned int milliseconds) {
    struct events *events = set;
    for (unsigned int waited = 0; waited <= milliseconds; waited += 20) {
        int index = 0;
        unsigned long long code = 0;
        long number = next_event(events->told, NULL, &index, &code);
        if (number && index >= 0 && index < DEVICES) {
            events->told = number;
            memset(event, 0, sizeof *event);
            event->device = &handles[index];
            event->type = 8; /* Critical Xid. */
            event->data = code;
            return OK;
        }
        wait_milliseconds(20);
    }
    return TIMEOUT;
}
