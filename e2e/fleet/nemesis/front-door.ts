/**
 * An ordinary round-robin balancer in front of daemons. It asks each daemon whether it is ready, sends each connection to the next
 * ready daemon, and closes the connections to daemons that are not. That is enough, because any daemon answers any request.
 */
import { once } from 'node:events'
import { connect, createServer, type Socket } from 'node:net'

export type FrontDoor = {
  readonly url: string
  close(): Promise<void>
}

const CHECK_MS = 500
const ANSWER_MS = 1_000 // a frozen daemon accepts connections and says nothing

/** `ports`: where daemons listen now. */
export async function openFrontDoor(ports: () => readonly number[]): Promise<FrontDoor> {
  const door = new Door(ports)
  await door.check()
  const timer = setInterval(() => void door.check(), CHECK_MS)
  const server = createServer((client) => void door.accept(client))
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  return {
    url: `http://127.0.0.1:${typeof address === 'object' && address !== null ? address.port : 0}`,
    close: async () => {
      clearInterval(timer)
      const closed = once(server, 'close')
      server.close()
      door.closeAll()
      await closed
    },
  }
}

// ---- details ----

class Door {
  readonly #ports: () => readonly number[]
  #ready: readonly number[] = []
  #turn = 0
  /** By the port of their daemon. */
  readonly #open = new Map<Socket, number>()

  constructor(ports: () => readonly number[]) {
    this.#ports = ports
  }

  async check(): Promise<void> {
    const all = await Promise.all(this.#ports().map(async (port) => ((await isReady(port)) ? [port] : [])))
    this.#ready = all.flat()
    for (const [socket, port] of this.#open) if (!this.#ready.includes(port)) socket.destroy()
  }

  async accept(client: Socket): Promise<void> {
    client.on('error', () => client.destroy()) // `close` follows
    this.#turn += 1
    const ready = this.#ready
    for (let at = 0; at < ready.length; at += 1) {
      const port = ready[(at + this.#turn) % ready.length] ?? 0
      const daemon = await connected(port)
      if (daemon === undefined) continue
      for (const [socket, other] of [
        [client, daemon],
        [daemon, client],
      ] as const) {
        this.#open.set(socket, port)
        socket.on('close', () => {
          this.#open.delete(socket)
          other.destroy()
        })
        socket.pipe(other)
      }
      if (client.destroyed) daemon.destroy()
      return
    }
    client.destroy()
  }

  closeAll(): void {
    for (const socket of this.#open.keys()) socket.destroy()
  }
}

async function isReady(port: number): Promise<boolean> {
  try {
    const answer = await fetch(`http://127.0.0.1:${port}/v1/ready`, { signal: AbortSignal.timeout(ANSWER_MS) })
    await answer.body?.cancel()
    return answer.ok
  } catch {
    return false // it is gone, or frozen
  }
}

function connected(port: number): Promise<Socket | undefined> {
  const socket = connect(port, '127.0.0.1')
  return new Promise((resolve) => {
    socket.once('connect', () => resolve(socket))
    socket.on('error', () => {
      socket.destroy()
      resolve(undefined)
    })
  })
}
