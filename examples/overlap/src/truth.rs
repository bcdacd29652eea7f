//! Parts of the device's time, computed from the starts and ends of its kernels.

/// Times of one kernel by the device's timer.
#[derive(Clone, Copy, Debug)]
pub struct Stamp {
    /// Whether it counts as communication.
    pub is_communication: bool,
    /// Start, in nanoseconds.
    pub start: u64,
    /// End, in nanoseconds.
    pub end: u64,
}

/// Parts of the window from the start of the first kernel to the end of the last one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Truth {
    /// Length of the window, in nanoseconds.
    pub window_ns: u64,
    /// Compute without communication, in nanoseconds.
    pub compute_only_ns: u64,
    /// Both at once, in nanoseconds.
    pub overlapped_ns: u64,
    /// Communication without compute, in nanoseconds.
    pub exposed_communication_ns: u64,
    /// Neither, in nanoseconds.
    pub idle_ns: u64,
    /// Number of compute kernels.
    pub compute_kernels: usize,
    /// Number of communication kernels.
    pub communication_kernels: usize,
}

impl Truth {
    /// Computes the parts from the kernels' times.
    ///
    /// # Errors
    /// If one of the kernels did not run.
    pub fn of(stamps: &[Stamp]) -> Result<Self, String> {
        if let Some(place) = stamps
            .iter()
            .position(|stamp| stamp.start == 0 || stamp.end < stamp.start)
        {
            return Err(format!(
                "kernel {place} of {} did not run: {:?}",
                stamps.len(),
                stamps[place]
            ));
        }
        let of_class = |is_communication| {
            let chosen = stamps
                .iter()
                .filter(move |stamp| stamp.is_communication == is_communication);
            chosen.map(|stamp| (stamp.start, stamp.end)).collect::<Vec<_>>()
        };
        let (compute, communication) = (of_class(false), of_class(true));
        let (compute_ns, communication_ns) = (union(compute.clone()), union(communication.clone()));
        let both_ns = union(compute.iter().chain(&communication).copied().collect());
        let first = stamps.iter().map(|stamp| stamp.start).min().ok_or("no kernel")?;
        let last = stamps.iter().map(|stamp| stamp.end).max().ok_or("no kernel")?;
        Ok(Self {
            window_ns: last - first,
            compute_only_ns: both_ns - communication_ns,
            overlapped_ns: compute_ns + communication_ns - both_ns,
            exposed_communication_ns: both_ns - compute_ns,
            idle_ns: last - first - both_ns,
            compute_kernels: compute.len(),
            communication_kernels: communication.len(),
        })
    }

    /// Sets the numbers of kernels: this many rounds of `compute` kernels and one communication kernel.
    pub fn with_kernels(self, rounds: usize, compute: usize) -> Self {
        Self {
            compute_kernels: rounds * compute,
            communication_kernels: rounds,
            ..self
        }
    }

    /// Returns a JSON object.
    pub fn to_json(self) -> String {
        format!(
            "{{\"window_ns\":{},\"compute_only_ns\":{},\"overlapped_ns\":{},\"exposed_communication_ns\":{},\
             \"idle_ns\":{},\"compute_kernels\":{},\"communication_kernels\":{}}}",
            self.window_ns,
            self.compute_only_ns,
            self.overlapped_ns,
            self.exposed_communication_ns,
            self.idle_ns,
            self.compute_kernels,
            self.communication_kernels
        )
    }
}

/// Returns the length of a union of intervals.
fn union(mut intervals: Vec<(u64, u64)>) -> u64 {
    intervals.sort_unstable();
    let (mut length, mut until) = (0, 0);
    for (start, end) in intervals {
        length += end.max(until) - start.max(until);
        until = until.max(end);
    }
    length
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_window() {
        let stamp = |is_communication, start, end| Stamp {
            is_communication,
            start,
            end,
        };
        let stamps = [
            stamp(false, 10, 20),
            stamp(false, 20, 25),
            stamp(true, 18, 30),
            stamp(false, 40, 41),
        ];
        let truth = Truth::of(&stamps).expect("all ran");
        let expected = Truth {
            window_ns: 31,
            compute_only_ns: 9,
            overlapped_ns: 7,
            exposed_communication_ns: 5,
            idle_ns: 10,
            compute_kernels: 3,
            communication_kernels: 1,
        };
        assert_eq!(truth, expected);
        assert!(Truth::of(&[stamp(false, 0, 0)]).is_err());
    }
}
