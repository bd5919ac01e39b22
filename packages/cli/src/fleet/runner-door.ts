/**
 * A proxy for a runner of a local fleet. It can hold back the start of a command and deliver it later, even if the daemon that
 * sent it is gone by then: that is how a late request reaches a runner in real networks.
 */
import { once } from 'node:events'
import { createServer, type IncomingMessage, request, type Server, type ServerResponse } from 'node:http'
import { buffer } from 'node:stream/consumers'

export type HeldStart = {
  readonly boxId: string
  /** Resolves with the status of the runner's answer; 0 if there is none. */
  deliver(): Promise<number>
}

/** Takes the next start of a command at any door, if somebody wants it. */
export class StartHold {
  #take: ((held: HeldStart) => void) | undefined

  /** Undefined if none came before the signal. */
  async next(signal: AbortSignal): Promise<HeldStart | undefined> {
    const found = Promise.withResolvers<HeldStart | undefined>()
    this.#take = found.resolve
    signal.addEventListener('abort', () => found.resolve(undefined), { once: true })
    try {
      return await found.promise
    } finally {
      this.#take = undefined
    }
  }

  /** Whoever gets the function has to call it. */
  taken(): ((held: HeldStart) => void) | undefined {
    const take = this.#take
    this.#take = undefined
    return take
  }
}

export class RunnerDoor {
  readonly #hold: StartHold
  readonly #server: Server
  readonly #target = Promise.withResolvers<string>()
  #port = 0

  static async open(hold: StartHold): Promise<RunnerDoor> {
    const door = new RunnerDoor(hold)
    door.#server.listen(0, '127.0.0.1')
    await once(door.#server, 'listening')
    const address = door.#server.address()
    door.#port = typeof address === 'object' && address !== null ? address.port : 0
    return door
  }

  constructor(hold: StartHold) {
    this.#hold = hold
    this.#server = createServer((req, res) => void this.#handle(req, res))
  }

  get url(): string {
    return `http://127.0.0.1:${this.#port}`
  }

  /** Requests wait until this is known. */
  leadsTo(url: string): void {
    this.#target.resolve(url)
  }

  async close(): Promise<void> {
    const closed = once(this.#server, 'close')
    this.#server.close()
    this.#server.closeAllConnections()
    await closed
  }

  // ---- details ----

  async #handle(req: IncomingMessage, res: ServerResponse): Promise<void> {
    const [, boxId] = (req.method === 'POST' && START.exec(req.url ?? '')) || []
    try {
      const target = await this.#target.promise
      if (boxId === undefined) return void (await forward(target, req, res, req))
      const body = await buffer(req)
      const deliver = (): Promise<number> => forward(target, req, res, body)
      const take = this.#hold.taken()
      if (take === undefined) await deliver()
      else take({ boxId, deliver })
    } catch {
      res.destroy() // the daemon left before it had sent everything
    }
  }
}

// ---- details ----

const START = /\/boxes\/([^/?]+)\/exec(?:\?|$)/

function forward(
  target: string,
  req: IncomingMessage,
  res: ServerResponse,
  body: Buffer | IncomingMessage,
): Promise<number> {
  const { hostname, port, host } = new URL(target)
  const { method, url: path } = req
  return new Promise((resolve) => {
    const onward = request({ hostname, port, method, path, headers: { ...req.headers, host }, agent: false })
    onward.on('response', (answer) => {
      const { statusCode = 502, headers } = answer
      resolve(statusCode)
      if (res.destroyed) return void answer.resume() // the caller is gone
      res.writeHead(statusCode, headers)
      res.once('close', () => answer.destroy())
      answer.once('error', () => res.destroy()) // the runner was killed
      answer.pipe(res)
    })
    onward.once('error', () => {
      res.destroy()
      resolve(0)
    })
    if (Buffer.isBuffer(body)) onward.end(body)
    else {
      req.once('error', () => onward.destroy())
      res.once('close', () => onward.destroy())
      req.pipe(onward)
    }
  })
}
