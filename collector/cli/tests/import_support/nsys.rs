//! Reports of Nsight Systems, exported to SQLite.

use std::path::Path;

/// Writes a report of two processes of one host, in the schema of Nsight Systems 2024.5. Each process calls an
/// all-reduce in a group, and the end of the group launches it. The kernel of process 500 waits 200 µs for that of the
/// other process.
pub fn report(path: &Path) {
    report_of(path, 8, |_| 0);
}

/// Writes such a report of `steps` steps. `longer` gives the additional nanoseconds of each step's first kernel.
pub fn report_of(path: &Path, steps: i64, longer: impl Fn(i64) -> i64) {
    let database = rusqlite::Connection::open(path).expect("a database");
    database
        .execute_batch(
            "CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);
             CREATE TABLE TARGET_INFO_SYSTEM_ENV (name TEXT NOT NULL, value TEXT NOT NULL);
             CREATE TABLE TARGET_INFO_SESSION_START_TIME (utcEpochNs INTEGER);
             CREATE TABLE TARGET_INFO_GPU (vmId INTEGER NOT NULL, id INTEGER NOT NULL, name TEXT);
             CREATE TABLE TARGET_INFO_CUDA_DEVICE (gpuId INTEGER NOT NULL, cudaId INTEGER NOT NULL, pid INTEGER NOT NULL);
             INSERT INTO TARGET_INFO_GPU VALUES (1, 0, 'NVIDIA A100-SXM4-80GB'), (1, 1, 'NVIDIA H100 80GB HBM3');
             INSERT INTO TARGET_INFO_CUDA_DEVICE VALUES (1, 0, 500), (0, 1, 500), (0, 1, 501);
             CREATE TABLE PROCESSES (globalPid INTEGER, pid INTEGER, name TEXT);
             CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL,
                contextId INTEGER NOT NULL, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER,
                demangledName INTEGER NOT NULL, gridX INTEGER, gridY INTEGER, gridZ INTEGER);
             CREATE TABLE CUPTI_ACTIVITY_KIND_MEMSET (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL,
                contextId INTEGER NOT NULL, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER, bytes INTEGER);
             CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER NOT NULL, end INTEGER NOT NULL, globalTid INTEGER,
                correlationId INTEGER, nameId INTEGER NOT NULL, returnValue INTEGER NOT NULL);
             CREATE TABLE NVTX_EVENTS (start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL, text TEXT,
                globalTid INTEGER, textId INTEGER, domainId INTEGER);
             INSERT INTO StringIds VALUES (1, 'gemm'), (2, 'ncclDevKernel_AllReduce_Sum_f32_RING_LL'),
                (3, 'cudaLaunchKernel_v7000'), (4, 'cudaLaunchKernelExC_v11060'), (5, 'ncclAllReduce');
             INSERT INTO TARGET_INFO_SYSTEM_ENV VALUES ('Hostname', 'node7');
             INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES (1700000000000000000);",
        )
        .expect("tables");
    let kernel = "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?1, ?2, ?3, 1, ?4, ?5, ?6, ?7, 8, 1, 1)";
    let call = "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?1, ?2, ?3, ?4, ?5, 0)";
    let range = "INSERT INTO NVTX_EVENTS VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
    for (device, pid, late) in [(0i64, 500i64, 0i64), (1, 501, 200_000)] {
        let process = pid << 24;
        let thread = process | pid;
        let put = |sql: &str, values: &[&dyn rusqlite::ToSql]| {
            database.execute(sql, values).expect("a row");
        };
        put(
            "INSERT INTO PROCESSES VALUES (?1, ?2, 'python train.py')",
            &[&process, &pid],
        );
        put(
            range,
            &[&0, &None::<i64>, &75, &"NCCL", &thread, &None::<i64>, &3],
        );
        let mut begin = 0;
        for step in 0..steps {
            begin += 1_000_000 + if step > 0 { longer(step - 1) } else { 0 };
            let more = longer(step);
            let correlation = 10 * step + 1;
            put(
                range,
                &[
                    &begin,
                    &(begin + 900_000 + more),
                    &59,
                    &format!("step #{step}"),
                    &thread,
                    &None::<i64>,
                    &0,
                ],
            );
            put(
                call,
                &[&(begin + 1000), &(begin + 3000), &thread, &correlation, &3],
            );
            put(
                kernel,
                &[
                    &(begin + 10_000),
                    &(begin + 60_000 + late + more),
                    &device,
                    &7,
                    &correlation,
                    &process,
                    &1,
                ],
            );
            for (from, to, name, id) in [
                (70_000, 71_000, Some("ncclGroupStart"), None),
                (72_000, 73_000, None, Some(5i64)),
                (74_000, 90_000, Some("ncclGroupEnd"), None),
            ] {
                put(
                    range,
                    &[&(begin + from), &(begin + to), &59, &name, &thread, &id, &3],
                );
            }
            let correlation = correlation + 1;
            put(
                call,
                &[&(begin + 80_000), &(begin + 85_000), &thread, &correlation, &4],
            );
            put(
                kernel,
                &[
                    &(begin + 100_000 + late + more),
                    &(begin + 400_000 + more),
                    &device,
                    &20,
                    &correlation,
                    &process,
                    &2,
                ],
            );
        }
    }
}
