/** A proxy in front of any TCP server that holds back, swallows, delays or cuts what passes. */
import { connect, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { startTcpServer, type TcpServer } from './tcp-server.ts'

/** `up` is from the client to the server, `down` the way back. `hold` keeps bytes for later, `drop` loses them. */
export type Flow = 'pass' | 'hold' | 'drop'

export class TcpProxy implements AsyncDisposable {
  up: Flow = 'pass'
  down: Flow = 'pass'
  /** How much later each piece arrives. Pieces of one connection keep their order. */
  delayMs: number | (() => number) = 0
  /** The port behind it, for new connections. */
  target: number
  /** Cuts the connection instead of passing on the server's answer to a question that contains this. Returns whether to. */
  cutAnswerTo: ((question: string) => boolean) | undefined
  readonly #server: TcpServer
  readonly #pairs = new Set<readonly [Socket, Socket]>()
  /** Until the last delayed piece for this socket has passed. */
  readonly #late = new Map<Socket, Promise<void>>()
  readonly #held: { to: Socket; bytes: Buffer }[] = []

  static async start(port: number): Promise<TcpProxy> {
    const server = await startTcpServer((client) => proxy.accept(client))
    const proxy = new TcpProxy(server, port)
    return proxy
  }

  constructor(server: TcpServer, target: number) {
    this.#server = server
    this.target = target
  }

  get port(): number {
    return this.#server.port
  }

  /** Connections of clients that are open now. */
  get open(): number {
    return this.#server.sockets.size
  }

  /** Delivers everything that was held back. */
  release(): void {
    this.up = 'pass'
    this.down = 'pass'
    for (const { to, bytes } of this.#held.splice(0)) to.write(bytes)
  }

  /** Lets everything pass again. Connections that lost bytes cannot be used any more, so all of them end. */
  heal(): void {
    this.up = 'pass'
    this.down = 'pass'
    this.#held.length = 0
    this.cut()
  }

  /** Ends every connection. */
  cut(): void {
    for (const pair of this.#pairs) for (const socket of pair) socket.destroy()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.cut()
    await this.#server.close()
  }

  accept(client: Socket): void {
    const server = connect(this.target, '127.0.0.1')
    const pair = [client, server] as const
    let isCutting = false
    this.#pairs.add(pair)
    for (const [socket, other] of [pair, pair.toReversed()] as const) {
      socket?.on('error', () => socket.destroy()) // `close` follows
      socket?.on('close', () => {
        other?.destroy()
        this.#pairs.delete(pair)
      })
    }
    client.on('data', (bytes: Buffer) => {
      isCutting ||= this.cutAnswerTo?.(bytes.toString('latin1')) === true
      this.#pass(bytes, server, this.up)
    })
    server.on('data', (bytes: Buffer) => {
      if (isCutting) for (const socket of pair) socket.destroy()
      else this.#pass(bytes, client, this.down)
    })
  }

  #pass(bytes: Buffer, to: Socket, flow: Flow): void {
    if (flow === 'hold') this.#held.push({ to, bytes })
    if (flow !== 'pass') return
    const before = this.#late.get(to)
    const ms = typeof this.delayMs === 'number' ? this.delayMs : this.delayMs()
    if (ms === 0 && before === undefined) return void to.write(bytes)
    const passed = Promise.all([before, sleep(ms)]).then(() => {
      if (this.#late.get(to) === passed) this.#late.delete(to)
      to.write(bytes)
    })
    this.#late.set(to, passed)
  }
}
