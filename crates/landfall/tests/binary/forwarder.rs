//! A TCP forwarder between a relay and a server: held, or pointed at another server, at will.
//!
//! **Rule:** what is held is not lost. A client's bytes wait here, in order, as they would in a
//! network that stalls.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Condvar, Mutex};

/// What all connections share.
struct Shared {
    to: AtomicU16,
    held: Mutex<bool>,
    released: Condvar,
    /// Both ends of every connection so far.
    streams: Mutex<Vec<TcpStream>>,
}

pub struct Forwarder {
    pub port: u16,
    shared: Arc<Shared>,
}

impl Forwarder {
    pub fn to(port: u16) -> Forwarder {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let own = listener.local_addr().expect("an address").port();
        let shared = Arc::new(Shared {
            to: AtomicU16::new(port),
            held: Mutex::new(false),
            released: Condvar::new(),
            streams: Mutex::default(),
        });
        let accepting = shared.clone();
        // It waits for the next one until the test's process ends.
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                accepting.serve(client);
            }
        });
        Forwarder { port: own, shared }
    }

    /// Nothing of what clients say from now on arrives.
    pub fn hold(&self) {
        *self.shared.held.lock().expect("no panic") = true;
    }

    /// All that was held arrives.
    pub fn release(&self) {
        *self.shared.held.lock().expect("no panic") = false;
        self.shared.released.notify_all();
    }

    /// Ends every connection; new ones go to another server.
    pub fn redirect(&self, port: u16) {
        self.shared.to.store(port, Ordering::SeqCst);
        for stream in self.shared.streams.lock().expect("no panic").drain(..) {
            // Gone already, perhaps.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

impl Shared {
    /// Threads of their own copy both ways until either end leaves.
    fn serve(self: &Arc<Shared>, client: TcpStream) {
        let Ok(server) = TcpStream::connect(("127.0.0.1", self.to.load(Ordering::SeqCst))) else {
            return;
        };
        let (Ok(client_too), Ok(server_too)) = (client.try_clone(), server.try_clone()) else {
            return;
        };
        let kept = [&client, &server].map(|stream| stream.try_clone().expect("a handle"));
        self.streams.lock().expect("no panic").extend(kept);
        let shared = self.clone();
        std::thread::spawn(move || copy(client, server, || shared.until_released()));
        std::thread::spawn(move || copy(server_too, client_too, || ()));
    }

    fn until_released(&self) {
        let held = self.held.lock().expect("no panic");
        drop(self.released.wait_while(held, |held| *held).expect("no panic"));
    }
}

fn copy(mut from: TcpStream, mut to: TcpStream, before_each: impl Fn()) {
    let mut bytes = vec![0; 64 << 10];
    while let Ok(read @ 1..) = from.read(&mut bytes) {
        before_each();
        if to.write_all(&bytes[..read]).is_err() {
            break;
        }
    }
    // Gone already, perhaps.
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}
