/**
 * Ports of a box on the loopback of this machine, opened by a caller. Each connection is dialled in the box's network.
 *
 * I1  A port is open only while the box runs, and only until the runner ends.
 * I2  A box cannot open one: only the API does, on a runner that allows it.
 */
import { createServer, type AddressInfo, type Server, type Socket } from 'node:net'
import { Fault } from '@breakfall/faults'
import type { BoxPort } from '@breakfall/wire'
import { BoxDialer } from '../network/box-dialer.ts'
import { splice } from '../network/splice.ts'

const PORTS_MAX = 16
const CONNECTIONS_MAX = 256

type OpenPort = BoxPort & { readonly server: Server }

export class BoxPorts {
  readonly #join: () => readonly string[] | undefined
  readonly #dialer = new BoxDialer()
  readonly #open = new Map<number, OpenPort>()
  readonly #opening = new Map<number, Promise<BoxPort>>()
  readonly #sockets = new Set<Socket>()

  /** `join`: the words that enter the box's network; undefined while there is none. */
  constructor(join: () => readonly string[] | undefined) {
    this.#join = join
  }

  get list(): readonly BoxPort[] {
    return [...this.#open.values()].map(({ port, url }) => ({ port, url })).toSorted((a, b) => a.port - b.port)
  }

  /** The same port twice is the same address. */
  open(port: number): Promise<BoxPort> {
    const known = this.#open.get(port)
    if (known !== undefined) return Promise.resolve({ port, url: known.url })
    const opening = this.#opening.get(port) ?? this.#listen(port).finally(() => this.#opening.delete(port))
    this.#opening.set(port, opening)
    return opening
  }

  /** False if it is not open. */
  close(port: number): boolean {
    const known = this.#open.get(port)
    known?.server.close()
    return this.#open.delete(port)
  }

  /** I1 */
  closeAll(): void {
    for (const port of this.#open.keys()) this.close(port)
    for (const socket of this.#sockets) socket.destroy()
    this.#dialer.close()
  }

  // ---- details, in the order they are used above ----

  async #listen(port: number): Promise<BoxPort> {
    if (this.#open.size + this.#opening.size >= PORTS_MAX)
      throw new Fault('quota_exceeded', { facts: { limit: `${PORTS_MAX} open ports in a box` } })
    const server = createServer(
      { pauseOnConnect: true, allowHalfOpen: true },
      (socket) => void this.#serve(socket, port),
    )
    server.maxConnections = CONNECTIONS_MAX
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject)
      server.listen(0, '127.0.0.1', resolve)
    })
    server.unref()
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
    this.#open.set(port, { port, url, server })
    return { port, url }
  }

  async #serve(client: Socket, port: number): Promise<void> {
    this.#own(client)
    try {
      const join = this.#join()
      if (join === undefined) throw new Error('the box has no network now')
      const peer = await this.#dialer.connect(join, port)
      this.#own(peer)
      if (client.destroyed || !this.#open.has(port)) peer.destroy()
      splice(client, peer)
    } catch {
      client.resetAndDestroy() // nothing listens there: the same as on a closed port
    }
  }

  #own(socket: Socket): void {
    this.#sockets.add(socket)
    socket.on('error', ignored)
    socket.once('close', () => this.#sockets.delete(socket))
  }
}

const ignored = (): void => {
  // Its close follows, and ends the other side.
}
