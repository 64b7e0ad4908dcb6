//! The limits of a transaction by their names, so that a bundle can hold them.

use glacis_engine::Limits;

/// A limit that the engine has and this list has not is an error of the compiler.
macro_rules! limits {
    ($($field:ident),* $(,)?) => {
        /// Each limit with its name.
        pub(super) fn values(limits: &Limits) -> Vec<(&'static str, usize)> {
            let Limits { $($field,)* } = limits;
            vec![$((stringify!($field), *$field),)*]
        }

        /// The limit of this name.
        pub(super) fn place<'a>(limits: &'a mut Limits, name: &str) -> Option<&'a mut usize> {
            match name {
                $(stringify!($field) => Some(&mut limits.$field),)*
                _ => None,
            }
        }
    };
}

glacis_engine::with_limits!(limits);
