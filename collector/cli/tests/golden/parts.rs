//! The parts of a window (METRICS.md, section 5).

use rankscope_analysis::intervals::device_overlap::{DeviceBreakdown, DeviceParts};
use rankscope_formats::session::WorkClass::{self, Communication, Compute, Memory};

fn parts(window: [i64; 2], works: &[(WorkClass, [i64; 2])]) -> DeviceParts {
    let mut breakdown = DeviceBreakdown::default();
    breakdown.start(window[0]);
    for &(class, [start, end]) in works {
        breakdown.ran(class, start, end);
    }
    let parts = breakdown.cut(window[1]);
    assert!(parts.adds_up());
    parts
}

/// ```text
///            0    10   20   30   40   50   60   70   80   90   100
/// compute    [==============]
///                 [====]                          nested: counted once
///                           [====]               touches
///                            .   [====]          touches
/// transfer                     35[.......]60
/// memory                               55[...]70                 90: without length
/// ```
///
/// C = 50, M = 25 (35–60), of which 15 while computing. Compute only: 35. Exposed communication: 50–60 = 10. Memory
/// that neither hides: 60–70 = 10. Idle: 100 − 70 = 30.
#[test]
fn nested_touching_and_empty_intervals_count_once() {
    let parts = parts(
        [0, 100],
        &[
            (Compute, [0, 30]),
            (Compute, [10, 20]),
            (Compute, [30, 40]),
            (Compute, [40, 50]),
            (Communication, [35, 60]),
            (Memory, [55, 70]),
            (Memory, [90, 90]),
        ],
    );
    assert_eq!(
        parts,
        DeviceParts {
            window_ns: 100,
            compute_only_ns: 35,
            overlapped_ns: 15,
            exposed_communication_ns: 10,
            exposed_memory_ns: 10,
            idle_ns: 30,
        }
    );
}

/// Works that start before the window or end after it count with their part inside the window.
#[test]
fn a_window_cuts_intervals_that_extend_beyond_it() {
    let parts = parts([100, 200], &[(Compute, [50, 120]), (Communication, [110, 300])]);
    assert_eq!(
        (
            parts.compute_only_ns,
            parts.overlapped_ns,
            parts.exposed_communication_ns,
            parts.idle_ns
        ),
        (10, 10, 80, 0)
    );
}

/// A window without any work is idle, and a window without length has no parts.
#[test]
fn a_window_without_work_is_idle() {
    assert_eq!(parts([0, 100], &[]).idle_ns, 100);
    assert_eq!(parts([5, 5], &[(Compute, [0, 10])]), DeviceParts::default());
}
