//! A device, its stream and its memory.

use anyhow::{Context as _, Result, bail};
use cudarc::driver::{CudaContext, CudaSlice, CudaStream, DevicePtr, sys};
use std::ffi::c_void;
use std::sync::Arc;

/// Device with one stream. Nothing is ordered between streams behind the caller's back.
#[derive(Clone, Debug)]
pub struct Device {
    context: Arc<CudaContext>,
    stream: Arc<CudaStream>,
}

/// Returns the number of devices, or 0 if there is no driver.
pub fn device_count() -> u32 {
    // SAFETY: the call only checks whether the library can be loaded. Without it the next call would panic.
    if !unsafe { sys::is_culib_present() } {
        return 0;
    }
    CudaContext::device_count().map_or(0, |count| count.max(0) as u32)
}

/// Returns why there is no device: no driver, or the driver's own reason.
pub fn why_no_device() -> String {
    // SAFETY: as in `device_count`.
    if !unsafe { sys::is_culib_present() } {
        return "there is no CUDA driver (libcuda.so.1)".to_owned();
    }
    match CudaContext::device_count() {
        Ok(_) => "the driver has no device".to_owned(),
        Err(error) if error.0 == sys::CUresult::CUDA_ERROR_STUB_LIBRARY => {
            "libcuda.so is the stub of the toolkit; remove its folder from LD_LIBRARY_PATH".to_owned()
        }
        Err(error) => format!("the driver reports {error}"),
    }
}

impl Device {
    /// Opens a device by its number.
    pub fn open(number: u32) -> Result<Self> {
        if device_count() == 0 {
            bail!("there is no CUDA device here: {}", why_no_device());
        }
        let context =
            CudaContext::new(number as usize).with_context(|| format!("cannot open device {number}"))?;
        // SAFETY: one stream uses all memory, so nothing has to be ordered between streams.
        unsafe { context.disable_event_tracking() };
        let stream = context.new_stream().context("cannot create a stream")?;
        Ok(Self { context, stream })
    }

    /// Returns the context.
    pub fn context(&self) -> &Arc<CudaContext> {
        &self.context
    }

    /// Returns the stream.
    pub fn stream(&self) -> &Arc<CudaStream> {
        &self.stream
    }

    /// Returns the stream, as NCCL takes it.
    pub fn stream_handle(&self) -> *mut c_void {
        self.stream.cu_stream().cast()
    }

    /// Allocates memory and clears it.
    pub fn memory(&self, bytes: u64) -> Result<Memory> {
        // An allocation of 0 bytes fails.
        let slice = self
            .stream
            .alloc_zeros::<u8>(bytes.max(1) as usize)
            .with_context(|| format!("cannot allocate {bytes} bytes on the device"))?;
        self.synchronize()?;
        Ok(Memory {
            slice,
            stream: Arc::clone(&self.stream),
        })
    }

    /// Returns true if the stream has no work.
    pub fn is_idle(&self) -> Result<bool> {
        // SAFETY: the stream is alive, and its context is current on this thread.
        match unsafe { sys::cuStreamQuery(self.stream.cu_stream()) } {
            sys::CUresult::CUDA_SUCCESS => Ok(true),
            sys::CUresult::CUDA_ERROR_NOT_READY => Ok(false),
            error => {
                Err(anyhow::Error::from(cudarc::driver::DriverError(error))).context("the device failed")
            }
        }
    }

    /// Waits for the stream.
    pub fn synchronize(&self) -> Result<()> {
        self.stream.synchronize().context("the device failed")
    }
}

/// Memory of a device.
#[derive(Debug)]
pub struct Memory {
    slice: CudaSlice<u8>,
    stream: Arc<CudaStream>,
}

impl Memory {
    /// Returns the address on the device, at an offset in bytes.
    pub fn address(&self, offset: u64) -> *mut c_void {
        let (address, _sync) = self.slice.device_ptr(&self.stream);
        (address + offset) as *mut c_void
    }

    /// Copies from the host, and waits for it.
    pub fn upload(&mut self, offset: u64, bytes: &[u8]) -> Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        let from = offset as usize;
        let mut part = self
            .slice
            .try_slice_mut(from..from + bytes.len())
            .context("a copy beyond the memory of the device")?;
        self.stream.memcpy_htod(bytes, &mut part)?;
        self.stream.synchronize()?;
        Ok(())
    }

    /// Copies to the host, and waits for it.
    pub fn download(&self, offset: u64, bytes: u64) -> Result<Vec<u8>> {
        let mut out = vec![0; bytes as usize];
        if bytes > 0 {
            let part = self
                .slice
                .try_slice(offset as usize..(offset + bytes) as usize)
                .context("a copy beyond the memory of the device")?;
            self.stream.memcpy_dtoh(&part, &mut out[..])?;
            self.stream.synchronize()?;
        }
        Ok(out)
    }

    /// Clears the memory, and waits for it.
    pub fn clear(&mut self) -> Result<()> {
        self.stream.memset_zeros(&mut self.slice)?;
        self.stream.synchronize()?;
        Ok(())
    }
}
