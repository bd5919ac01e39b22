/**
 * A simulated runner behind the real runner client: boxes, fences, burned ids and execs, as the real one keeps them on disk. Its process may
 * die, move and come back; what was acknowledged stays.
 *
 * A command says what it does: `work NAME lines=3 ms=400 code=0`. The rules hear of what really ran and was written.
 */
import { Fault, toProblem } from '../../packages/faults/src/index.ts'
import { type Process, START, type World } from '../host/time.ts'
import type { Answering, Exchange, Network, Server } from './network.ts'

export type Effect = {
  readonly boxId: string
  readonly execId: string
  readonly command: string
  readonly at: number
  readonly exchange: Exchange
  /** The highest epoch that the box had seen, and the one that came with the request. */
  readonly epochSeen: number
  readonly epoch: number | undefined
}

/** A file that was written. Undefined: there was none before. */
export type Written = Omit<Effect, 'execId' | 'command'> & {
  readonly path: string
  readonly before: string | undefined
  readonly after: string
}

type Exec = {
  readonly execId: string
  readonly command: string
  readonly hash: string
  readonly startedAt: number
  readonly events: Record<string, unknown>[]
  readonly listeners: Set<() => void>
  readonly bytes: { stdout: number; stderr: number }
  exit: Record<string, unknown> | null
  endedAt: number | null
  isBurned: boolean
}

type Box = {
  readonly id: string
  readonly create: Readonly<Record<string, unknown>>
  readonly createdAt: number
  state: 'running' | 'stopped'
  movedAt: number
  readonly execs: Map<string, Exec>
  readonly files: Map<string, { readonly text: string; readonly etag: string }>
}

/** What survives the runner's process: its disk. */
export class RunnerDisk {
  readonly runnerId: string
  readonly boxes = new Map<string, Box>()
  readonly epochs = new Map<string, number>()
  readonly burned = new Set<string>()
  /** They hear of each effect at once. */
  readonly observers: { readonly started?: (effect: Effect) => void; readonly written?: (written: Written) => void }[] =
    []
  /** How many files were written. */
  writes = 0
  /** Execs whose end cannot be known: their machine restarted, or their record was forgotten. */
  readonly lost = new Set<string>()
  /** What each exec has printed. */
  readonly printed = new Map<string, string>()
  /** Starts that came too late: from an owner that was replaced, or under an id that was burned. */
  readonly refused = { fenced: 0, burned: 0 }
  /** Ids of execs whose records are past their days. */
  readonly reserved = new Set<string>()

  constructor(runnerId: string) {
    this.runnerId = runnerId
  }
}

/** What a broken runner would do, to see that the rules find it. */
export type Quirk = 'starts a known id again' | 'forgets ids after a week' | 'ignores epochs' | 'ignores burned ids'

const RECORD_MS = 7 * 24 * 3_600_000

export class Runner implements Server {
  readonly process: Process
  readonly disk: RunnerDisk
  #network: Network | undefined
  readonly #world: World
  readonly #bootId: string
  readonly #quirk: Quirk | undefined

  constructor(world: World, disk: RunnerDisk, process: Process, quirk?: Quirk) {
    this.#world = world
    this.disk = disk
    this.process = process
    this.#quirk = quirk
    this.#bootId = `boot-${process.name}`
  }

  listen(network: Network, origin: string): void {
    this.#network = network
    network.listen(origin, this)
  }

  serve(exchange: Exchange, answer: Answering): void {
    try {
      this.#route(exchange, answer)
    } catch (thrown) {
      if (!(thrown instanceof Fault)) throw thrown
      refuse(answer, thrown)
    }
  }

  /** The machine restarts: what ran is lost. */
  static machineRestarted(world: World, disk: RunnerDisk): void {
    for (const box of disk.boxes.values())
      for (const exec of box.execs.values()) {
        if (exec.exit !== null) continue
        disk.lost.add(exec.execId)
        finish(world, exec, { cause: 'runner_lost', started: null })
      }
  }

  // ---- details, in the order they are used above ----

  #route(exchange: Exchange, answer: Answering): void {
    const url = new URL(exchange.path, 'http://runner')
    const parts = url.pathname.split('/').filter((part) => part !== '')
    const { method } = exchange
    if (parts[1] === 'health')
      return json(answer, 200, { status: 'ok', runnerId: this.disk.runnerId, bootId: this.#bootId, version: '0' })
    const expected = exchange.headers['x-breakfall-runner']
    if (expected !== undefined && expected !== this.disk.runnerId)
      throw new Fault('runner_identity_mismatch', { errorRaw: `this is ${this.disk.runnerId}` })
    if (parts[1] === 'config') return json(answer, 200, { isolation: { level: 'bwrap' } })
    const [, , , id = '', what = '', execId = '', verb = ''] = parts
    if (parts.length === 3 && method === 'GET')
      return json(answer, 200, { boxes: [...this.disk.boxes.values()].map((box) => this.#boxView(box)) })
    if (parts.length === 3 && method === 'POST') return this.#createBox(exchange, answer)
    if (id === 'check') return json(answer, 200, this.#boxView(this.#design('check', bodyOf(exchange))))
    if (what === '' && method === 'GET') return json(answer, 200, this.#boxView(this.#box(id)))
    if (what === '' && method === 'DELETE') return this.#removeBox(exchange, answer, id)
    if (what === 'owner') return this.#own(exchange, answer, id)
    if (what === 'start' || what === 'stop') return this.#setState(exchange, answer, id, what)
    if (what === 'processes') return json(answer, 200, { processes: this.#box(id) && [] })
    if (what === 'checkpoints') return this.#checkpoints(exchange, answer, id)
    if (what === 'files' && method === 'GET') return this.#readFile(answer, id, parts.slice(5).join('/'))
    if (what === 'files' && method === 'PUT') return this.#writeFile(exchange, answer, id, parts.slice(5).join('/'))
    if (what === 'exec') return this.#startExec(exchange, answer, id)
    if (what === 'execs' && execId === '')
      return json(answer, 200, { execs: [...this.#box(id).execs.values()].map((exec) => this.#view(id, exec)) })
    if (what === 'execs') return this.#exec(exchange, answer, { id, execId, verb, url })
    throw new Fault('not_found', { facts: { name: `${method} ${url.pathname}` } })
  }

  #createBox(exchange: Exchange, answer: Answering): void {
    const create = bodyOf(exchange)
    const id = textIn(create, 'id')
    this.#admit(id, exchange)
    if (this.disk.boxes.has(id)) throw new Fault('box_already_exists', { facts: { name: id }, boxId: id })
    const box = this.#design(id, create)
    this.disk.boxes.set(id, box)
    json(answer, 201, this.#boxView(box))
  }

  #design(id: string, create: Readonly<Record<string, unknown>>): Box {
    const now = this.#now()
    return { id, create, createdAt: now, state: 'running', movedAt: now, execs: new Map(), files: new Map() }
  }

  #removeBox(exchange: Exchange, answer: Answering, id: string): void {
    this.#admit(id, exchange)
    const box = this.#box(id)
    this.#refuseBusy(exchange, box)
    this.disk.boxes.delete(id)
    for (const execId of box.execs.keys()) this.disk.reserved.delete(`${id}/${execId}`) // they were in its folder
    this.#network?.happened('removed', id)
    for (const exec of box.execs.values()) if (exec.exit === null) finish(this.#world, exec, { cause: 'killed' })
    answer.head(204)
    answer.end()
  }

  #own(exchange: Exchange, answer: Answering, id: string): void {
    const epoch = epochOf(exchange)
    if (epoch === undefined) throw new Fault('invalid_request', { errorRaw: 'the epoch of the new owner is missing' })
    this.#admit(id, exchange)
    json(answer, 200, { epoch })
  }

  #setState(exchange: Exchange, answer: Answering, id: string, verb: 'start' | 'stop'): void {
    const box = this.#box(id)
    this.#admit(id, exchange)
    if (verb === 'stop') {
      this.#refuseBusy(exchange, box)
      for (const exec of box.execs.values()) if (exec.exit === null) finish(this.#world, exec, { cause: 'box_stopped' })
    }
    box.state = verb === 'start' ? 'running' : 'stopped'
    box.movedAt = this.#now()
    json(answer, 200, this.#boxView(box))
  }

  #refuseBusy({ path }: Exchange, box: Box): void {
    const isBusy = [...box.execs.values()].some(({ exit }) => exit === null)
    if (isBusy && path.includes('ifIdle=1'))
      throw new Fault('box_invalid_state', { boxId: box.id, errorRaw: 'an exec is running' })
  }

  #checkpoints({ method }: Exchange, answer: Answering, id: string): void {
    this.#box(id)
    if (method === 'GET') return json(answer, 200, { checkpoints: [], skipped: [], bytes: 0 })
    throw new Fault('other', { errorRaw: 'this box keeps no checkpoints' })
  }

  #readFile(answer: Answering, id: string, path: string): void {
    const file = this.#box(id).files.get(path)
    this.#network?.happened('read', id)
    if (file === undefined) throw new Fault('file_not_found', { facts: { name: path }, boxId: id })
    answer.head(200, { etag: file.etag })
    answer.end(file.text)
  }

  #writeFile(exchange: Exchange, answer: Answering, id: string, path: string): void {
    this.#admit(id, exchange)
    const { files } = this.#box(id)
    const { 'if-match': ifMatch, 'if-none-match': ifNoneMatch } = exchange.headers
    const before = files.get(path)
    const isOther = (ifMatch !== undefined && ifMatch !== before?.etag) || (ifNoneMatch === '*' && before !== undefined)
    if (isOther) throw new Fault('precondition_failed', { facts: { name: path }, boxId: id })
    this.disk.writes += 1
    const etag = `"${this.disk.writes}"`
    files.set(path, { text: exchange.body, etag })
    const written = { ...this.#effect(id, exchange), path, before: before?.text, after: exchange.body }
    for (const { written: heard } of this.disk.observers) heard?.(written)
    answer.head(before === undefined ? 201 : 200, { 'content-type': 'application/json', etag })
    answer.end(JSON.stringify({ etag }))
  }

  #effect(boxId: string, exchange: Exchange): Omit<Effect, 'execId' | 'command'> {
    const epochSeen = this.disk.epochs.get(boxId) ?? 0
    return { boxId, at: this.#world.now, epochSeen, epoch: epochOf(exchange), exchange }
  }

  #startExec(exchange: Exchange, answer: Answering, id: string): void {
    const box = this.#box(id)
    if ((epochOf(exchange) ?? 0) < (this.disk.epochs.get(id) ?? 0)) this.disk.refused.fenced += 1
    this.#admit(id, exchange)
    const request = bodyOf(exchange)
    const execId = textIn(request, 'execId')
    if (this.disk.burned.has(`${id}/${execId}`)) this.disk.refused.burned += 1
    const hash = JSON.stringify(request)
    const known = this.#known(box, execId)
    if (known !== undefined && !(this.#quirk === 'starts a known id again' && !known.isBurned)) {
      if (!known.isBurned && known.hash !== hash && known.hash !== '')
        throw new Fault('exec_conflict', { facts: { name: execId }, boxId: id, execId })
      return json(answer, 200, this.#view(id, known))
    }
    if (box.state === 'stopped') throw new Fault('box_stopped', { boxId: id })
    const exec = this.#run(box, execId, textIn(request, 'shell'), hash, exchange)
    json(answer, 201, this.#view(id, exec))
  }

  /** A record is forgotten after a week, and its id never. */
  #known(box: Box, execId: string): Exec | undefined {
    const exec = box.execs.get(execId)
    if (exec !== undefined && exec.endedAt !== null && this.#now() - exec.endedAt > RECORD_MS) {
      box.execs.delete(execId)
      this.disk.lost.add(execId)
    }
    if (box.execs.has(execId)) return box.execs.get(execId)
    const isBurned = this.disk.burned.has(`${box.id}/${execId}`) && this.#quirk !== 'ignores burned ids'
    const isReserved = this.disk.reserved.has(`${box.id}/${execId}`) && this.#quirk !== 'forgets ids after a week'
    if (!isBurned && !isReserved) return undefined
    const lost = newExec(execId, '', '', this.#now())
    lost.isBurned = isBurned
    lost.events.pop()
    finish(this.#world, lost, isBurned ? { cause: 'killed', started: false } : { cause: 'runner_lost', started: null })
    return lost
  }

  #run(box: Box, execId: string, command: string, hash: string, exchange: Exchange): Exec {
    const exec = newExec(execId, command, hash, this.#now())
    box.execs.set(execId, exec)
    this.disk.reserved.add(`${box.id}/${execId}`)
    for (const { started } of this.disk.observers) started?.({ ...this.#effect(box.id, exchange), execId, command })
    const { lines, ms, code, name, isBoth } = workIn(command)
    for (let line = 1; line <= lines; line += 1)
      this.#later(ms * (line / (lines + 1)), () => {
        print(exec, isBoth && line % 2 === 0 ? 'stderr' : 'stdout', `${name} line ${line}\n`)
        this.disk.printed.set(execId, exec.events.map(({ data = '' }) => data as string).join(''))
      })
    this.#later(ms, () => finish(this.#world, exec, { cause: 'exited', code }))
    return exec
  }

  /** Commands outlive the runner's process: they belong to the machine. */
  #later(ms: number, run: () => void): void {
    this.#world.after(ms, this.#world.outside, 'command', run)
  }

  #exec(exchange: Exchange, answer: Answering, at: { id: string; execId: string; verb: string; url: URL }): void {
    const { id, execId, verb, url } = at
    if (verb === 'kill') return this.#kill(exchange, answer, id, execId, url.searchParams.get('burn') === '1')
    const exec = this.#known(this.#box(id), execId)
    if (exec === undefined) throw new Fault('exec_not_found', { facts: { name: execId }, boxId: id, execId })
    if (verb === 'events') return this.#events(answer, exec, Number(url.searchParams.get('after') ?? 0))
    if (verb === 'wait' && exec.exit === null) {
      const waitMs = Number(url.searchParams.get('timeoutMs') ?? 60_000)
      const isAt = this.#world.now + waitMs
      const look = (): void => {
        if (exec.exit === null && this.#world.now < isAt) return
        exec.listeners.delete(look)
        json(answer, exec.exit === null ? 202 : 200, this.#view(id, exec))
      }
      exec.listeners.add(look)
      this.#world.after(waitMs, this.process, 'wait', look)
      return
    }
    json(answer, 200, this.#view(id, exec))
  }

  #kill(exchange: Exchange, answer: Answering, id: string, execId: string, isBurning: boolean): void {
    const box = this.disk.boxes.get(id)
    this.#admit(id, exchange)
    const exec = box === undefined ? undefined : this.#known(box, execId)
    if (exec === undefined) {
      if (!isBurning) throw new Fault('exec_not_found', { facts: { name: execId }, boxId: id, execId })
      this.disk.burned.add(`${id}/${execId}`)
      this.#network?.happened('burned', id)
      const burned = newExec(execId, '', '', this.#now())
      burned.events.pop()
      finish(this.#world, burned, { cause: 'killed', started: false })
      return json(answer, 200, this.#view(id, burned))
    }
    if (exec.exit !== null) return json(answer, 200, this.#view(id, exec))
    this.#world.after(50, this.#world.outside, 'killed', () => {
      finish(this.#world, exec, { cause: 'killed', signal: 'SIGTERM' })
      this.#world.after(0, this.process, 'kill', () => json(answer, 200, this.#view(id, exec)))
    })
  }

  #events(answer: Answering, exec: Exec, after: number): void {
    answer.head(200, { 'content-type': 'text/event-stream' })
    let at = after
    const send = (): void => {
      if (answer.isGone || this.process.isDead) return void exec.listeners.delete(send)
      for (const event of exec.events.slice(at)) {
        at = Number(event['seq'])
        answer.write(`id: ${at}\nevent: ${String(event['type'])}\ndata: ${JSON.stringify(event)}\n\n`)
      }
      if (exec.exit === null) return
      exec.listeners.delete(send)
      answer.end()
    }
    exec.listeners.add(send)
    answer.onGone(() => exec.listeners.delete(send))
    answer.write(': hello\n\n')
    send()
  }

  /** A lower epoch than the box has seen is refused; a higher one is kept. */
  #admit(boxId: string, exchange: Exchange): void {
    const epoch = epochOf(exchange)
    if (epoch === undefined) return
    const seen = this.disk.epochs.get(boxId) ?? 0
    if (epoch < seen && this.#quirk === 'ignores epochs') return
    if (epoch < seen)
      throw new Fault('lease_lost', {
        boundary: 'box',
        boxId,
        epochSeen: seen,
        errorRaw: `epoch ${epoch} is lower than ${seen}`,
      })
    this.disk.epochs.set(boxId, epoch)
    if (epoch > seen) this.#network?.happened('owned', boxId)
  }

  #box(id: string): Box {
    const box = this.disk.boxes.get(id)
    if (box === undefined) throw new Fault('box_not_found', { facts: { name: id }, boxId: id })
    return box
  }

  #boxView({ id, create, createdAt, state, movedAt }: Box): Record<string, unknown> {
    return {
      id,
      state,
      createdAt: iso(createdAt),
      workspace: { kind: 'private', path: `/boxes/${id}` },
      isolation: { level: 'bwrap', userns: true, pidns: true, netns: true, memoryLimit: false, pidsLimit: false },
      limits: { memoryMb: null, pids: null, cpus: null, execsMax: null },
      network: create['network'] ?? 'none',
      autoStart: true,
      checkpoints: 'off',
      lastTransition: { at: iso(movedAt), from: 'creating', to: state },
    }
  }

  #view(boxId: string, exec: Exec): Record<string, unknown> {
    const { execId, command, startedAt, endedAt, bytes, exit, events } = exec
    return {
      execId,
      boxId,
      state: exit === null ? 'running' : 'exited',
      command: ['sh', '-c', command],
      startedAt: exit?.['started'] === false ? null : iso(startedAt),
      endedAt: endedAt === null ? null : iso(endedAt),
      stdoutBytes: bytes.stdout,
      stderrBytes: bytes.stderr,
      lastSeq: events.length,
      exit,
    }
  }

  #now(): number {
    return START + this.#world.now
  }
}

/** What a command of the workload does. */
export function workIn(command: string): {
  readonly name: string
  readonly lines: number
  readonly ms: number
  readonly code: number
  /** It prints every second line to its other stream. */
  readonly isBoth: boolean
} {
  const [, name = ''] = command.split(' ')
  const number = (key: string, otherwise: number): number =>
    Number(new RegExp(`\\b${key}=(\\d+)`).exec(command)?.[1] ?? otherwise)
  return {
    name,
    lines: number('lines', 1),
    ms: number('ms', 10),
    code: number('code', 0),
    isBoth: number('both', 0) === 1,
  }
}

// ---- details ----

const iso = (ms: number): string => new Date(ms).toISOString()

const epochOf = ({ headers }: Exchange): number | undefined => {
  const text = headers['x-breakfall-epoch']
  return text === undefined ? undefined : Number(text)
}

function bodyOf({ body }: Exchange): Readonly<Record<string, unknown>> {
  return JSON.parse(body === '' ? '{}' : body)
}

function textIn(body: Readonly<Record<string, unknown>>, field: string): string {
  const { [field]: text } = body
  return typeof text === 'string' ? text : ''
}

function json(answer: Answering, status: number, value: unknown): void {
  answer.head(status, { 'content-type': 'application/json' })
  answer.end(JSON.stringify(value))
}

function refuse(answer: Answering, fault: Fault): void {
  const problem = toProblem(fault)
  answer.head(problem.status, { 'content-type': 'application/problem+json' })
  answer.end(JSON.stringify(problem))
}

function newExec(execId: string, command: string, hash: string, startedAt: number): Exec {
  return {
    execId,
    command,
    hash,
    startedAt,
    events: [{ seq: 1, type: 'start', execId, pid: 7, at: iso(startedAt) }],
    listeners: new Set(),
    bytes: { stdout: 0, stderr: 0 },
    exit: null,
    endedAt: null,
    isBurned: false,
  }
}

function print(exec: Exec, stream: 'stdout' | 'stderr', text: string): void {
  if (exec.exit !== null) return
  exec.events.push({ seq: exec.events.length + 1, type: stream, offset: exec.bytes[stream], data: text })
  exec.bytes[stream] += Buffer.byteLength(text)
  for (const heard of exec.listeners) heard()
}

function finish(
  world: World,
  exec: Exec,
  how: { cause: string; code?: number; signal?: string; started?: boolean | null },
): void {
  if (exec.exit !== null) return
  const now = START + world.now
  const exit = {
    cause: how.cause,
    started: how.started === undefined ? true : how.started,
    code: how.code ?? null,
    signal: how.signal ?? null,
    signalGuess: null,
    durationMs: now - exec.startedAt,
    survivors: [],
    stdoutBytes: exec.bytes.stdout,
    stderrBytes: exec.bytes.stderr,
    truncated: false,
    diagnostics: [],
  }
  exec.events.push({ seq: exec.events.length + 1, type: 'exit', ...exit })
  exec.exit = exit
  exec.endedAt = now
  for (const heard of exec.listeners) heard()
}
