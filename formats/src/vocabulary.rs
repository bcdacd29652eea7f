//! Closed vocabularies of documents: a field that holds one of a few names is an enum.

/// Declares enums whose values are names in documents. Each gets the list of its values, their names, and their text
/// form, which is the name.
///
/// A later version of rankscope may write more names. They are read as the last value, which has the attribute
/// `serde(other)`.
macro_rules! vocabulary {
    ($($(#[$doc:meta])* $named:ident { $($(#[$value_attribute:meta])* $value:ident = $name:literal,)* })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
        pub enum $named { $($(#[$value_attribute])* #[serde(rename = $name)] $value,)* }

        impl $named {
            /// All values, in the order of the enum.
            pub const ALL: &'static [Self] = &[$(Self::$value,)*];

            /// Returns the name used in documents and reports.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$value => $name,)* }
            }
        }

        impl From<$named> for String {
            fn from(value: $named) -> Self {
                value.name().to_owned()
            }
        }

        impl std::fmt::Display for $named {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.name())
            }
        }
    )*};
}

pub(crate) use vocabulary;

#[cfg(test)]
mod tests {
    use crate::comparison::{Better, DifferenceEffect, GateVerdict, MetricVerdict, Verdict};
    use crate::session::{AxisMethod, LogEnding, Scope, Severity, Window};
    use serde::Serialize;
    use serde::de::DeserializeOwned;

    /// Asserts that each value is written as its name and read back, and that an unknown name is read as the last one.
    fn round_trips<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug + Copy>(
        all: &[T],
        name: fn(T) -> &'static str,
    ) {
        for &value in all {
            let text = serde_json::to_string(&value).expect("serialisable");
            assert_eq!(text, format!("\"{}\"", name(value)));
            assert_eq!(serde_json::from_str::<T>(&text).expect("readable"), value);
        }
        let later: T = serde_json::from_str("\"of-a-later-version\"").expect("readable");
        assert_eq!(Some(&later), all.last());
    }

    #[test]
    fn names_are_written_and_read_back() {
        round_trips(AxisMethod::ALL, AxisMethod::name);
        round_trips(LogEnding::ALL, LogEnding::name);
        round_trips(Scope::ALL, Scope::name);
        round_trips(Severity::ALL, Severity::name);
        round_trips(Window::ALL, Window::name);
        round_trips(Better::ALL, Better::name);
        round_trips(DifferenceEffect::ALL, DifferenceEffect::name);
        round_trips(GateVerdict::ALL, GateVerdict::name);
        round_trips(MetricVerdict::ALL, MetricVerdict::name);
        round_trips(Verdict::ALL, Verdict::name);
    }
}
