//! First-party validators in a native process: the same crates that run as WebAssembly in haptic.
//!
//! `native-validators serve SOCKET VALIDATOR CONFIG` answers protocol v1 on one unix socket: frames of a 4-byte big-endian
//! length and JSON, one connection after the other. `native-validators time VALIDATOR CONFIG PATH FILE CALLS` prints the
//! median nanoseconds of a call in this process, with no protocol at all.
#![allow(clippy::print_stdout, reason = "printing a figure is what `time` is for")]

use std::{
    env, fs,
    io::{self, BufReader, BufWriter, Read as _, Write as _},
    os::unix::net::{UnixListener, UnixStream},
    process::ExitCode,
    time::Instant,
};

use haptic_plugin_sdk::{Finding, Report, Verdict, testing};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Largest frame of protocol v1.
const MAX_FRAME_BYTES: usize = 8 << 20;

type Validator = fn(Value, &str, Vec<u8>) -> Result<Report, testing::TestError>;

#[derive(Deserialize)]
struct Request {
    protocol_version: u32,
    files: Vec<RequestFile>,
}

#[derive(Deserialize)]
struct RequestFile {
    path: String,
    content: String,
}

#[derive(Serialize)]
struct Response<'a> {
    protocol_version: u32,
    result: Verdict,
    warnings: &'a [Finding],
    errors: &'a [Finding],
}

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match arguments[..] {
        ["serve", socket, validator, config] => serve(socket, validator, config),
        ["time", validator, config, path, file, calls] => time(validator, config, path, file, calls),
        _ => {
            Err("usage: native-validators serve SOCKET VALIDATOR CONFIG | time VALIDATOR CONFIG PATH FILE CALLS".into())
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

type Done<T> = Result<T, Box<dyn std::error::Error>>;

fn validator(name: &str) -> Done<Validator> {
    match name {
        "error-file" => Ok(|config, path, content| {
            let request = testing::auxiliary_file(testing::file(path, content));
            testing::validate_auxiliary_file::<error_file::ErrorFile>(config, &request)
        }),
        "maps" => Ok(|config, path, content| {
            let request = testing::auxiliary_file(testing::file(path, content));
            testing::validate_auxiliary_file::<maps::Maps>(config, &request)
        }),
        _ => Err(format!("there is no validator `{name}`; known: error-file, maps").into()),
    }
}

fn serve(socket: &str, name: &str, config: &str) -> Done<()> {
    let validator = validator(name)?;
    let config: Value = serde_json::from_str(config)?;
    let listener = UnixListener::bind(socket)?;
    for connection in listener.incoming() {
        let connection = connection?;
        let mut reader = BufReader::new(connection.try_clone()?);
        while let Some(frame) = read_frame(&mut reader)? {
            answer(&connection, validator, &config, &frame)?;
        }
    }
    Ok(())
}

fn read_frame(reader: &mut BufReader<UnixStream>) -> Done<Option<Vec<u8>>> {
    let mut length = [0; 4];
    match reader.read_exact(&mut length) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        read => read?,
    }
    let length = usize::try_from(u32::from_be_bytes(length))?;
    if length > MAX_FRAME_BYTES {
        return Err(format!("a frame of {length} bytes is longer than {MAX_FRAME_BYTES}").into());
    }
    let mut frame = vec![0; length];
    reader.read_exact(&mut frame)?;
    Ok(Some(frame))
}

fn answer(connection: &UnixStream, validator: Validator, config: &Value, frame: &[u8]) -> Done<()> {
    let request: Request = serde_json::from_slice(frame)?;
    if request.protocol_version != 1 {
        return Err(format!("protocol version {} is not 1", request.protocol_version).into());
    }
    let file = request.files.into_iter().next().ok_or("the request has no file")?;
    let report = validator(config.clone(), &file.path, file.content.into_bytes())?;
    let response = Response {
        protocol_version: 1,
        result: report.verdict(),
        warnings: report.warnings(),
        errors: report.errors(),
    };
    let body = serde_json::to_vec(&response)?;
    let mut writer = BufWriter::new(connection);
    writer.write_all(&u32::try_from(body.len())?.to_be_bytes())?;
    writer.write_all(&body)?;
    Ok(writer.flush()?)
}

fn time(name: &str, config: &str, path: &str, file: &str, calls: &str) -> Done<()> {
    let validator = validator(name)?;
    let config: Value = serde_json::from_str(config)?;
    let content = fs::read(file)?;
    let mut samples = Vec::new();
    for _ in 0..calls.parse::<usize>()? {
        let (config, content) = (config.clone(), content.clone());
        let began = Instant::now();
        let report = validator(config, path, content)?;
        samples.push(began.elapsed());
        drop(report);
    }
    samples.sort();
    let median = samples.get(samples.len() / 2).ok_or("no calls were asked for")?;
    println!("{}", median.as_nanos());
    Ok(())
}
