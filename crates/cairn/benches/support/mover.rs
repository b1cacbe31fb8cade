//! A process that takes and gives as many bytes as a turn, and does nothing with them: what no server could save.
//!
//! Must never know: what the bytes are.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const BUFFER: usize = 64 * 1024;

/// Takes orders for ever: two numbers, then as many bytes as the first says, answered by as many as the second says.
#[tokio::main]
pub async fn serve() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    println!("listening on http://{}", listener.local_addr().unwrap());
    loop {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.set_nodelay(true).unwrap();
        tokio::spawn(async move {
            while let Ok(taken) = stream.read_u64().await {
                let given = stream.read_u64().await.unwrap();
                take(&mut stream, taken).await;
                give(&mut stream, given).await;
            }
        });
    }
}

/// Who gives the orders.
pub struct Client(TcpStream);

impl Client {
    pub async fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        Self(stream)
    }

    pub async fn play(&mut self, given: usize, taken: usize) {
        self.0.write_u64(given as u64).await.unwrap();
        self.0.write_u64(taken as u64).await.unwrap();
        give(&mut self.0, given as u64).await;
        take(&mut self.0, taken as u64).await;
    }
}

async fn take(stream: &mut TcpStream, bytes: u64) {
    let mut buffer = vec![0; BUFFER];
    let mut rest = usize::try_from(bytes).unwrap();
    while rest > 0 {
        let some = rest.min(BUFFER);
        let read = stream.read(&mut buffer[..some]).await.unwrap();
        assert!(read > 0, "the connection was cut");
        rest -= read;
    }
}

async fn give(stream: &mut TcpStream, bytes: u64) {
    let buffer = vec![0; BUFFER];
    let mut rest = usize::try_from(bytes).unwrap();
    while rest > 0 {
        let some = rest.min(BUFFER);
        stream.write_all(&buffer[..some]).await.unwrap();
        rest -= some;
    }
}
