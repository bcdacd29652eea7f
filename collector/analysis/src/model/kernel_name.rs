//! Readable names of kernels.

/// Maximum length of a shortened name, in characters.
const LONGEST: usize = 80;

/// Removes the arguments of a kernel's name and truncates it to 80 characters. Templates produce names of a thousand
/// characters.
pub fn short(name: &str) -> String {
    let mut depth = 0i32;
    // Neither `(anonymous namespace)` nor `operator()` starts the arguments.
    let plain = name.replace("(anonymous namespace)", "{anonymous}");
    let end = plain
        .char_indices()
        .find(|&(at, c)| {
            match c {
                '<' => depth += 1,
                '>' => depth -= 1,
                _ => {}
            }
            c == '(' && depth <= 0 && !plain[..at].ends_with("operator")
        })
        .map_or(plain.len(), |(at, _)| at);
    let plain = &plain[..end];
    if plain.chars().count() <= LONGEST {
        return plain.to_owned();
    }
    let mut cut: String = plain.chars().take(LONGEST - 1).collect();
    cut.push('…');
    cut
}

/// Demangles a C++ name. Other names are returned unchanged.
pub fn demangled(name: &str) -> String {
    if !name.starts_with("_Z") {
        return name.to_owned();
    }
    let options = cpp_demangle::DemangleOptions::new().no_return_type();
    cpp_demangle::Symbol::new(name)
        .ok()
        .and_then(|symbol| symbol.demangle_with_options(&options).ok())
        .unwrap_or_else(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::LONGEST;

    #[test]
    fn kernel_names_are_shortened() {
        let long = format!("at::native::kernel<{}>(int)", "float, ".repeat(40));
        for (name, short) in [
            (
                "ncclDevKernel_AllReduce(ncclDevKernelArgsStorage<(unsigned long)4096>)",
                "ncclDevKernel_AllReduce",
            ),
            (
                "at::native::(anonymous namespace)::add<4, f(int)>(int, char*)",
                "at::native::{anonymous}::add<4, f(int)>",
            ),
            ("Functor::operator()(int)", "Functor::operator()"),
            ("ampere_sgemm_128x64_tn", "ampere_sgemm_128x64_tn"),
        ] {
            assert_eq!(super::short(name), short);
        }
        let cut = super::short(&long);
        assert_eq!((cut.chars().count(), cut.ends_with('…')), (LONGEST, true));
    }
}
