/**
 * The names that a box may reach. Each has an address of the box's own loopback, for the box's life; what connects there is
 * connected to the name, from here.
 *
 * I1  An address stands for one name, also after a restart of the runner.
 * I2  A name that is not on the list does not exist in the box.
 */
import { isIPv4 } from 'node:net'
import { isObject } from '@breakfall/faults/internal'
import { readJsonFile, writeJsonDurably } from '../lib/disk.ts'
import { Connections } from './connections.ts'
import { Denials, DenialFile } from './denials.ts'
import type { Internet } from './dial.ts'
import { dnsAnswer, readQuestion } from './dns-answer.ts'
import { cleanName, findAllowed, parsePattern, type Pattern } from './patterns.ts'
import { type BoxSockets, takeSockets } from './sockets.ts'

export type NamesSetup = {
  /** Where the addresses are kept. */
  readonly file: string
  /** Where what was refused is kept. */
  readonly deniedFile: string
  readonly ip: string | null
  readonly internet: Internet
  readonly now: () => number
}

/** Bound whatever the list says, so attempts without a name are seen. */
const PORTS = [443, 80, 22] as const
const NAMES_MAX = 4_096
const SAVE_MS = 100
const QUERIES_MAX = 1_000 // a second; a box that asks more often must not slow the runner down

export class BoxNames {
  readonly denials = new Denials()
  readonly #denialFile: DenialFile
  readonly #setup: NamesSetup
  readonly #addresses = new Map<string, string>()
  readonly #names = new Map<string, string>()
  readonly #connections: Connections
  #patterns: readonly Pattern[] = []
  #sockets: BoxSockets[] = []
  #servedIn = ''
  #opening: Promise<void> = Promise.resolve()
  #save: NodeJS.Timeout | undefined
  #queries = { second: 0, count: 0 }

  constructor(setup: NamesSetup, allow: readonly string[]) {
    this.#setup = setup
    this.#denialFile = new DenialFile(setup.deniedFile, this.denials)
    this.allow(allow)
    this.#read()
    const names = (): readonly Pattern[] => this.#patterns
    this.#connections = new Connections(
      {
        get patterns() {
          return names()
        },
        nameOf: (address) => this.#names.get(address),
        onDenied: (denial) => {
          this.denials.add(denial, setup.now())
          this.#denialFile.saveSoon()
        },
      },
      setup.internet,
    )
  }

  /** Connections that are open stay. */
  allow(allow: readonly string[]): void {
    this.#patterns = allow.flatMap((text) => parsePattern(text) ?? [])
  }

  /** Serves the network that these words enter. Resolves when programs of the box can use it. */
  serve(join: readonly string[]): Promise<void> {
    this.#opening = this.#opening.catch(ignored).then(() => this.#open(join))
    return this.#opening
  }

  /** The network is gone, or the runner ends. */
  close(): void {
    for (const { dns, servers } of this.#sockets) {
      dns?.close()
      for (const [, server] of servers) server.close()
    }
    this.#connections.close()
    this.#sockets = []
    this.#servedIn = ''
    if (this.#save !== undefined) this.#write()
    this.#denialFile.save()
  }

  // ---- details, in the order they are used above ----

  async #open(join: readonly string[]): Promise<void> {
    const network = join.join(' ')
    if (this.#servedIn !== network) this.close()
    const bound = new Set(this.#sockets.flatMap(({ servers }) => servers.map(([port]) => port)))
    const ports = new Set([...PORTS, ...this.#patterns.flatMap((pattern) => pattern.ports)])
    const missing = [...ports].filter((port) => !bound.has(port))
    const wanted = [...(this.#sockets.length === 0 ? (['dns'] as const) : []), ...missing]
    if (wanted.length === 0) return
    const sockets = await takeSockets(join, this.#setup.ip, wanted)
    this.#sockets.push(sockets)
    this.#servedIn = network
    sockets.dns?.on('error', ignored) // a box that is gone does not read its answers
    sockets.dns?.on('message', (query, from) => {
      const answer = this.#answer(query)
      if (answer !== undefined) sockets.dns?.send(answer, from.port, from.address, ignored)
    })
    sockets.dns?.unref()
    for (const [port, server] of sockets.servers) {
      server.on('connection', (socket) => this.#connections.take(socket, port))
      server.on('error', ignored)
      server.unref()
    }
  }

  #answer(query: Buffer): Buffer | undefined {
    const question = this.#isFlood() ? undefined : readQuestion(query)
    if (question === undefined) return undefined
    const isName = cleanName(question.name) === question.name // a label may have any bytes in it
    const isAllowed = isName && findAllowed(this.#patterns, question.name) !== undefined
    if (!isAllowed) {
      this.denials.lookedUp(question.name, question.type, this.#setup.now()) // I2: it does not exist
      this.#denialFile.saveSoon()
    }
    return dnsAnswer(query, isAllowed ? this.#addressOf(question.name) : undefined)
  }

  #isFlood(): boolean {
    const second = Math.floor(this.#setup.now() / 1_000)
    if (this.#queries.second !== second) this.#queries = { second, count: 0 }
    this.#queries.count += 1
    return this.#queries.count > QUERIES_MAX
  }

  /** Undefined if the box has used up its addresses. */
  #addressOf(name: string): string | undefined {
    const known = this.#addresses.get(name)
    if (known !== undefined || this.#addresses.size >= NAMES_MAX) return known
    const n = this.#addresses.size + 1
    const address = `127.64.${n >> 8}.${n & 255}`
    this.#keep(name, address)
    this.#save ??= setTimeout(() => this.#write(), SAVE_MS)
    this.#save.unref()
    return address
  }

  #keep(name: string, address: string): void {
    this.#addresses.set(name, address)
    this.#names.set(address, name) // I1: one address, one name
  }

  #write(): void {
    clearTimeout(this.#save)
    this.#save = undefined
    try {
      writeJsonDurably(this.#setup.file, { names: [...this.#addresses.keys()] })
    } catch {
      // The disk is full: only after a restart of the runner might a program that kept an address reach another allowed name.
    }
  }

  #read(): void {
    try {
      const json = readJsonFile(this.#setup.file)
      const names = isObject(json) && Array.isArray(json['names']) ? json['names'] : []
      for (const [i, name] of names.entries())
        if (typeof name === 'string' && !isIPv4(name)) this.#keep(name, `127.64.${(i + 1) >> 8}.${(i + 1) & 255}`)
    } catch {
      // Damaged or not there: programs look their names up again.
    }
  }
}

const ignored = (): void => {
  // The program that asked is gone.
}
