//! Differential testing: mutated requests go to Glacis and to the parsers of applications.
//!
//! A [`case::Case`] is a request with one of the [`mark`]s in it, made by a [`grammar`] and changed by [`mutation`].
//! A [`parser::Parser`] runs a real parser as another process and returns its names and values. Where one of those
//! contains the mark, the [`judge::Judge`] requires that Glacis shows the mark to the rules as well, or blocks the
//! request. Anything else is a *silent bypass*.
//!
//! Cases follow from a seed and a number alone, so each can be made again. [`recorded`] has a sample of cases with what
//! parsers made of them, for tests without any parser.

pub mod advisories;
pub mod case;
pub mod failure;
pub mod grammar;
pub mod judge;
pub mod mark;
pub mod mutation;
pub mod parser;
pub mod random;
pub mod recorded;
pub mod run;
