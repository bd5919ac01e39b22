/** A client on a bare socket: sends a request, keeps every byte of the answer and notes how the connection ended. */
import { connect, type Socket } from 'node:net'

export type Reply = {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: Buffer
  /** By HTTP's rules: the last chunk or the announced length came. */
  readonly isWhole: boolean
  /** Nothing happened for longer than any stream takes. */
  readonly isHung: boolean
}

/** Seconds of work or of idleness: one in which this program waits for its machine says nothing about a stream. */
const HUNG_SECONDS = 60

/** Keeps the connections of proper answers for the next requests. */
export class Client {
  readonly #idle = new Map<number, Socket[]>()
  readonly #open = new Set<Socket>()
  readonly #waiting = new Set<{ readonly since: number; readonly giveUp: () => void }>()
  readonly #clock: NodeJS.Timeout
  #seconds = 0

  constructor(hungSeconds = HUNG_SECONDS) {
    let [loop, cpu] = [performance.eventLoopUtilization(), process.cpuUsage()]
    this.#clock = setInterval(() => {
      const [{ idle }, { user, system }] = [performance.eventLoopUtilization(loop), process.cpuUsage(cpu)]
      this.#seconds += idle / 1_000 + (user + system) / 1_000_000
      ;[loop, cpu] = [performance.eventLoopUtilization(), process.cpuUsage()]
      for (const { since, giveUp } of this.#waiting) if (this.#seconds - since >= hungSeconds) giveUp()
    }, 1_000)
  }

  async ask(port: number, path: string, body: string, headers: Readonly<Record<string, string>>): Promise<Reply> {
    const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`)
    const request = `POST ${path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\ncontent-length: ${Buffer.byteLength(body)}\r\n${lines.join('')}\r\n${body}`
    const known = this.#idle.get(port)?.pop()
    const reply = known === undefined ? undefined : await this.#exchange(known, port, request)
    // The other side may close an idle connection at any time.
    return reply === undefined || isNothing(reply) ? this.#exchange(this.#connect(port), port, request) : reply
  }

  close(): void {
    clearInterval(this.#clock)
    for (const socket of this.#open) socket.destroy()
  }

  #exchange(socket: Socket, port: number, request: string): Promise<Reply> {
    return new Promise((resolve) => {
      const reader = new ReplyReader()
      const end = (isHung: boolean): void => {
        this.#waiting.delete(waiting)
        socket.off('data', read)
        socket.off('close', closed)
        if (reader.isWhole && !socket.destroyed) this.#idle.set(port, [...(this.#idle.get(port) ?? []), socket])
        else socket.destroy()
        resolve(reader.reply(isHung))
      }
      const read = (bytes: Buffer): void => {
        reader.push(bytes)
        if (reader.isWhole) end(false)
      }
      const closed = (): void => end(false)
      const waiting = { since: this.#seconds, giveUp: () => end(true) }
      this.#waiting.add(waiting)
      socket.on('data', read)
      socket.on('close', closed)
      socket.write(request)
    })
  }

  #connect(port: number): Socket {
    const socket = connect({ port, host: '127.0.0.1', noDelay: true })
    this.#open.add(socket)
    socket.on('error', () => socket.destroy()) // the reader sees that the answer is not whole
    socket.once('close', () => {
      this.#open.delete(socket)
      const idle = this.#idle.get(port)
      if (idle !== undefined)
        this.#idle.set(
          port,
          idle.filter((one) => one !== socket),
        )
    })
    return socket
  }
}

// ---- details ----

const isNothing = ({ status, isHung }: Reply): boolean => status === 0 && !isHung

class ReplyReader {
  isWhole = false
  #bytes: Buffer = Buffer.alloc(0)
  #status = 0
  #headers: Record<string, string> = {}
  readonly #body: Buffer[] = []
  #left: number | 'chunk head' | 'chunk end' | 'head' | 'last' = 'head'
  #isChunked = false

  push(bytes: Buffer): void {
    this.#bytes = this.#bytes.length === 0 ? bytes : Buffer.concat([this.#bytes, bytes])
    while (!this.isWhole && this.#step());
  }

  reply(isHung: boolean): Reply {
    return {
      status: this.#status,
      headers: this.#headers,
      body: Buffer.concat(this.#body),
      isWhole: this.isWhole,
      isHung,
    }
  }

  #step(): boolean {
    if (this.#left === 'head') return this.#head()
    if (typeof this.#left === 'number') {
      const taken = this.#bytes.subarray(0, this.#left)
      this.#body.push(taken)
      this.#bytes = this.#bytes.subarray(taken.length)
      this.#left -= taken.length
      if (this.#left > 0) return false
      if (this.#isChunked) this.#left = 'chunk end'
      else this.isWhole = true
      return true
    }
    const end = this.#bytes.indexOf('\r\n')
    if (end === -1) return false
    const line = this.#bytes.toString('latin1', 0, end)
    this.#bytes = this.#bytes.subarray(end + 2)
    if (this.#left === 'last') this.isWhole = true
    else if (this.#left === 'chunk end') this.#left = 'chunk head'
    else {
      const size = Number.parseInt(line, 16)
      this.#left = size === 0 ? 'last' : size
    }
    return true
  }

  #head(): boolean {
    const end = this.#bytes.indexOf('\r\n\r\n')
    if (end === -1) return false
    const [first = '', ...lines] = this.#bytes.toString('latin1', 0, end).split('\r\n')
    this.#bytes = this.#bytes.subarray(end + 4)
    this.#status = Number(first.split(' ')[1])
    this.#headers = Object.fromEntries(
      lines.map((line) => {
        const colon = line.indexOf(':')
        return [line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim()]
      }),
    )
    this.#isChunked = this.#headers['transfer-encoding'] === 'chunked'
    this.#left = this.#isChunked ? 'chunk head' : Number(this.#headers['content-length'] ?? 0)
    return true
  }
}
