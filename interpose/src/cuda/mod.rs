//! The CUDA driver that the program has loaded: its functions, and the models and addresses of its devices.

pub mod device_properties;
pub mod driver;
