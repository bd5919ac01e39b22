/**
 * Connects to ports in the network of a box, from outside: a small process in that network dials, and passes the connected
 * socket to the runner. It is started when it is needed, and ends after a while without use.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { Socket } from 'node:net'
import { fileURLToPath } from 'node:url'
import { isObject } from '@breakfall/faults/internal'

const PROGRAM = fileURLToPath(new URL('dial-in.mjs', import.meta.url))
const DIAL_MS = 15_000 // with the start of the process, on a busy machine
const IDLE_MS = 60_000

type Waiting = { readonly resolve: (socket: Socket) => void; readonly reject: (error: Error) => void }

export class BoxDialer {
  #child: ChildProcess | undefined
  #network = ''
  #serial = 0
  readonly #waiting = new Map<number, Waiting>()
  #idle: NodeJS.Timeout | undefined

  /** `join`: the words that enter the network. Rejects if nothing listens there. */
  connect(join: readonly string[], port: number): Promise<Socket> {
    const child = this.#childIn(join)
    const id = (this.#serial += 1)
    const { promise, resolve, reject } = Promise.withResolvers<Socket>()
    const timer = setTimeout(() => reject(new Error(`no connection within ${DIAL_MS} ms`)), DIAL_MS)
    this.#waiting.set(id, { resolve, reject })
    child.send({ id, port }, (error) => {
      if (error !== null) reject(error)
    })
    return promise.finally(() => {
      clearTimeout(timer)
      this.#waiting.delete(id)
      this.#endLater()
    })
  }

  close(): void {
    clearTimeout(this.#idle)
    if (this.#child?.connected === true) this.#child.disconnect() // that ends it
    this.#child = undefined
  }

  // ---- details, in the order they are used above ----

  #childIn(join: readonly string[]): ChildProcess {
    const network = join.join(' ')
    if (this.#network !== network) this.close()
    clearTimeout(this.#idle)
    if (this.#child?.connected === true) return this.#child
    const [program, ...args] = [...join, process.execPath, PROGRAM]
    const child = spawn(program, args, {
      cwd: '/',
      env: { PATH: '/usr/bin:/bin' },
      stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
    })
    child.on('message', (message, handle) => this.#answered(message, handle))
    child.on('error', (error) => this.#failAll(child, error))
    child.on('exit', () => this.#failAll(child, new Error('the process in the network of the box ended')))
    child.unref()
    child.channel?.unref()
    this.#child = child
    this.#network = network
    return child
  }

  #answered(message: unknown, handle: unknown): void {
    const { id, failed } = isObject(message) ? message : {}
    const waiting = typeof id === 'number' ? this.#waiting.get(id) : undefined
    if (handle instanceof Socket && waiting !== undefined) {
      handle.allowHalfOpen = true
      waiting.resolve(handle)
    } else if (handle instanceof Socket) handle.destroy() // whoever asked has given up
    else waiting?.reject(new Error(typeof failed === 'string' ? failed : 'the connection ended at once'))
  }

  /** Dials of a later process continue. */
  #failAll(child: ChildProcess, error: Error): void {
    if (this.#child !== child) return
    this.#child = undefined
    for (const { reject } of this.#waiting.values()) reject(error)
  }

  #endLater(): void {
    clearTimeout(this.#idle)
    this.#idle = setTimeout(() => {
      if (this.#waiting.size === 0) this.close()
    }, IDLE_MS)
    this.#idle.unref()
  }
}
