//! Replays the corpus of the fuzz targets without a fuzzer: seeds, and every input that once found a fault.

use rankscope_tests::artefacts::root;

fn replay(target: &str, run: fn(&[u8])) {
    let directory = root().join("tests/fuzz/corpus").join(target);
    let entries = directory
        .read_dir()
        .unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    let mut inputs: Vec<_> = entries
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| {
            path.file_name()
                .is_some_and(|name| name.to_string_lossy().starts_with("seed-"))
        })
        .collect();
    inputs.sort();
    assert!(inputs.len() >= 2, "{}: {inputs:?}", directory.display());
    for path in inputs {
        eprintln!("{}", path.display());
        let input = std::fs::read(&path).expect("an input");
        run(&input);
        // Also replay truncated inputs, which a file system may leave.
        for end in 0..input.len().min(600) {
            run(&input[..end]);
        }
    }
}

#[test]
fn segment_files() {
    replay("segments", rankscope_fuzz_bodies::segments);
}

#[test]
fn live_areas() {
    replay("live_area", rankscope_fuzz_bodies::live_area);
}

#[test]
fn records_payloads() {
    replay("records", rankscope_fuzz_bodies::records);
}

#[test]
fn dumps_of_cupti() {
    replay("cupti_dump", rankscope_fuzz_bodies::cupti_dump);
}

#[test]
fn traces_of_torch_profiler() {
    replay("kineto", rankscope_fuzz_bodies::kineto);
}

#[test]
fn indices_of_the_viewer() {
    replay("view", rankscope_fuzz_bodies::view);
}

#[test]
fn runs_of_definitions() {
    replay("definitions", rankscope_fuzz_bodies::definitions);
}

#[test]
fn entries_of_a_baseline() {
    replay("baseline_entry", rankscope_fuzz_bodies::baseline_entry);
}

#[test]
fn dumps_of_the_flight_recorder() {
    replay("flight_recorder", rankscope_fuzz_bodies::flight_recorder);
}

#[test]
fn files_of_the_inspector() {
    replay("inspector", rankscope_fuzz_bodies::inspector);
}

#[test]
fn results_of_a_bench() {
    replay("bench", rankscope_fuzz_bodies::bench);
    // A field that was added later must not make all inputs unreadable.
    let seed = rankscope_tests::artefacts::root().join("tests/fuzz/corpus/bench/seed-gloo");
    let read = rankscope_formats::bench::BenchResults::read(&seed).expect("readable");
    assert_eq!(read.rows.len(), 4);
}

#[test]
fn statuses_of_ras() {
    replay("ras", rankscope_fuzz_bodies::ras);
}

#[test]
fn timelines_of_ray() {
    replay("ray_timeline", rankscope_fuzz_bodies::ray_timeline);
}

#[test]
fn samples_of_gpus() {
    replay("gpu_samples", rankscope_fuzz_bodies::gpu_samples);
}

#[test]
fn files_that_doctor_reads() {
    replay("machine_files", rankscope_fuzz_bodies::machine_files);
}

#[test]
fn reports_of_hangs() {
    replay("status", rankscope_fuzz_bodies::status);
}
