/** The client of a runner. Methods reject only with a Fault; streams end with one instead of throwing. */
import { randomInt } from 'node:crypto'
import { retrying } from '@breakfall/faults'
import {
  type Box,
  type BoxCreate,
  boxListSchema,
  boxOwnerSchema,
  type BoxPort,
  boxPortListSchema,
  boxPortSchema,
  boxSchema,
  type Checkpoint,
  type CheckpointCreate,
  type CheckpointDiff,
  checkpointDiffSchema,
  type CheckpointList,
  checkpointListSchema,
  checkpointSchema,
  type Restored,
  restoredSchema,
  type RestoreRequest,
  type BoxState,
  type Exec,
  execListSchema,
  type ExecRequest,
  execSchema,
  fileListSchema,
  runnerHealthSchema,
} from '@breakfall/wire'
import { processListSchema, type BoxProcess, BACKGROUND_READY_MS } from '@breakfall/wire/internal'
import { type ExecStreamEvent, followEvents } from './events.ts'
import { type CallOptions, type RunnerAnswer, RunnerHttp, RUNNER_AWAY } from './http.ts'

export type { ExecStreamEvent } from './events.ts'

/** A response whose body the caller reads, or destroys. */
export type OutputAnswer = {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: RunnerAnswer['body']
}

export type RunnerClientOptions = {
  readonly url: string
  readonly token: string
  /** Default: `default`. */
  readonly prefix?: string | undefined
  /** The expected runner: any other refuses the call. */
  readonly runnerId?: string | undefined
  /** The owner's epoch, sent with every call that changes something. `withEpoch` sets another one. */
  readonly epoch?: number | undefined
  readonly connectMs?: number | undefined
  readonly headersMs?: number | undefined
  /** From 0 to 1, for the jitter of retries. */
  readonly dice?: (() => number) | undefined
}

type Cancellable = { readonly signal?: AbortSignal | undefined }
type IfIdle = Cancellable & { readonly ifIdle?: boolean | undefined }
type RunnerHealth = ReturnType<(typeof runnerHealthSchema)['parse']>
type FileEntry = ReturnType<(typeof fileListSchema)['parse']>['files'][number]

export type RunnerClient = {
  /** The same client for another owner. Both share their connections. */
  withEpoch(epoch: number): RunnerClient
  /** The same client, whose calls end when the signal aborts. */
  withUntil(until: AbortSignal): RunnerClient
  health(o?: Cancellable): Promise<RunnerHealth>
  config(o?: Cancellable): Promise<unknown>
  createBox(create: BoxCreate, o?: Cancellable): Promise<Box>
  /** What the box would be, or why it would be refused. Creates nothing. */
  checkBox(create: BoxCreate, o?: Cancellable): Promise<Box>
  getBox(id: string, o?: Cancellable): Promise<Box>
  listBoxes(o?: Cancellable & { readonly state?: BoxState | undefined }): Promise<Box[]>
  /** Refuses every lower epoch from now on, with or without a box. */
  ownBox(id: string, o?: Cancellable): Promise<{ readonly epoch: number }>
  startBox(id: string, o?: Cancellable): Promise<Box>
  /** `ifIdle`: refused while an exec is running. */
  stopBox(id: string, o?: IfIdle): Promise<Box>
  removeBox(id: string, o?: IfIdle): Promise<void>
  listProcesses(boxId: string, o?: Cancellable): Promise<readonly BoxProcess[]>
  /** Opens a port of a box on the loopback of the runner's machine. Idempotent. Refused without `--allow-ports`. */
  openPort(boxId: string, port: number, o?: Cancellable): Promise<BoxPort>
  listPorts(boxId: string, o?: Cancellable): Promise<readonly BoxPort[]>
  closePort(boxId: string, port: number, o?: Cancellable): Promise<void>
  /** Idempotent by `execId`. A background process is answered when it is ready, over, or its time is up. */
  startExec(boxId: string, request: ExecRequest, o?: Cancellable): Promise<Exec>
  getExec(boxId: string, execId: string, o?: Cancellable): Promise<Exec>
  listExecs(boxId: string, o?: Cancellable): Promise<Exec[]>
  /** Reconnects and resumes automatically, unless `reconnect` is false. The last event is `exit` or `fault`, exactly one. */
  execEvents(
    boxId: string,
    execId: string,
    o?: Cancellable & { readonly after?: number | undefined; readonly reconnect?: boolean | undefined },
  ): AsyncIterable<ExecStreamEvent>
  /** Bytes of one stream, from `from` up to, not including, `to`. */
  execOutput(
    boxId: string,
    execId: string,
    stream: 'stdout' | 'stderr',
    o?: Cancellable & { readonly from?: number; readonly to?: number },
  ): Promise<Buffer>
  /** The same as a stream, however long it is. `range` is a Range header. */
  openOutput(
    boxId: string,
    execId: string,
    stream: 'stdout' | 'stderr',
    o?: Cancellable & { readonly range?: string | undefined },
  ): Promise<OutputAnswer>
  /** Waits until the exec has ended, over as many connections as needed. */
  waitExec(boxId: string, execId: string, o?: Cancellable): Promise<Exec>
  /** `burn`: an id that the runner does not know never starts from now on, with or without a box. */
  killExec(boxId: string, execId: string, o?: Cancellable & { readonly burn?: boolean | undefined }): Promise<Exec>
  signalExec(boxId: string, execId: string, signal: string, o?: Cancellable): Promise<Exec>
  writeStdin(
    boxId: string,
    execId: string,
    bytes: Uint8Array,
    input?: { readonly eof?: boolean | undefined },
    o?: Cancellable,
  ): Promise<Exec>
  readFile(boxId: string, path: string, o?: Cancellable): Promise<{ readonly bytes: Buffer; readonly etag: string }>
  writeFile(
    boxId: string,
    path: string,
    bytes: Uint8Array,
    /** `ifNoneMatch`: only if there is no file yet. */
    o?: Cancellable & { readonly ifMatch?: string | undefined; readonly ifNoneMatch?: '*' | undefined },
  ): Promise<{ readonly etag: string }>
  deleteFile(boxId: string, path: string, o?: Cancellable & { readonly ifMatch?: string | undefined }): Promise<void>
  listFiles(boxId: string, glob: string, o?: Cancellable): Promise<FileEntry[]>
  takeCheckpoint(boxId: string, create?: CheckpointCreate, o?: Cancellable): Promise<Checkpoint>
  listCheckpoints(boxId: string, o?: Cancellable): Promise<CheckpointList>
  removeCheckpoint(boxId: string, id: string, o?: Cancellable): Promise<void>
  /** From a checkpoint to another one; by default to now. */
  diffCheckpoint(boxId: string, id: string, to?: string, o?: Cancellable): Promise<CheckpointDiff>
  /** The same as a patch. */
  patchOfCheckpoint(boxId: string, id: string, to?: string, o?: Cancellable): Promise<Buffer>
  restoreCheckpoint(boxId: string, id: string, request?: RestoreRequest, o?: Cancellable): Promise<Restored>
  /** Closes all connections. */
  close(): Promise<void>
}

const CONNECT_MS = 10_000
const HEADERS_MS = 30_000
const WAIT_MS = 25_000 // one long poll; shorter than the idle limit of a proxy in between
const EVENTS_SILENCE_MS = 45_000 // three heartbeats

export function createRunnerClient(options: RunnerClientOptions): RunnerClient {
  const http = new RunnerHttp({
    url: options.url,
    token: options.token,
    prefix: options.prefix ?? 'default',
    runnerId: options.runnerId,
    epoch: options.epoch,
    connectMs: options.connectMs ?? CONNECT_MS,
    headersMs: options.headersMs ?? HEADERS_MS,
  })
  return clientOver(http, options)
}

function clientOver(http: RunnerHttp, options: RunnerClientOptions): RunnerClient {
  const dice = options.dice ?? (() => randomInt(2 ** 32) / 2 ** 32)
  const box = (id: string, o: Cancellable = {}): CallOptions => ({ params: { id }, signal: o.signal })
  const exec = (id: string, execId: string, o: Cancellable = {}): CallOptions => ({
    params: { id, execId },
    signal: o.signal,
  })
  const file = (
    id: string,
    path: string,
    o: Cancellable & { readonly ifMatch?: string | undefined; readonly ifNoneMatch?: '*' | undefined } = {},
  ): CallOptions => ({
    params: { id, path },
    signal: o.signal,
    headers: {
      ...(o.ifMatch === undefined ? {} : { 'if-match': o.ifMatch }),
      ...(o.ifNoneMatch === undefined ? {} : { 'if-none-match': o.ifNoneMatch }),
    },
  })
  const nothing = async (
    name: 'removeBox' | 'deleteFile' | 'removeCheckpoint' | 'closePort',
    call: CallOptions,
  ): Promise<void> => {
    await http.bytes(name, await http.send(name, call), call)
  }
  return {
    withEpoch: (epoch) => clientOver(http.withEpoch(epoch), options),
    withUntil: (until) => clientOver(http.withUntil(until), options),
    health: (o = {}) => http.json('health', runnerHealthSchema, { signal: o.signal }),
    config: (o = {}) => http.json('config', { parse: (value) => value }, { signal: o.signal }),
    createBox: (create, o = {}) => http.json('createBox', boxSchema, { json: create, signal: o.signal }),
    checkBox: (create, o = {}) => http.json('checkBox', boxSchema, { json: create, signal: o.signal }),
    getBox: (id, o) => http.json('getBox', boxSchema, box(id, o)),
    listBoxes: (o = {}) =>
      pages(
        (cursor) => http.json('listBoxes', boxListSchema, { query: { cursor, state: o.state }, signal: o.signal }),
        ({ boxes }) => boxes,
      ),
    startBox: (id, o) => http.json('startBox', boxSchema, box(id, o)),
    ownBox: (id, o) => http.json('ownBox', boxOwnerSchema, box(id, o)),
    stopBox: (id, o) => http.json('stopBox', boxSchema, { ...box(id, o), ...onlyIfIdle(o) }),
    removeBox: (id, o) => nothing('removeBox', { ...box(id, o), ...onlyIfIdle(o) }),
    listProcesses: async (id, o) => (await http.json('listProcesses', processListSchema, box(id, o))).processes,
    openPort: (id, port, o) => http.json('openPort', boxPortSchema, { ...box(id, o), json: { port } }),
    listPorts: async (id, o) => (await http.json('listPorts', boxPortListSchema, box(id, o))).ports,
    closePort: (id, port, o) => nothing('closePort', { params: { id, port: String(port) }, signal: o?.signal }),
    startExec: (id, request, o) => {
      const headersMs = (options.headersMs ?? HEADERS_MS) + readyMsOf(request)
      return http.json('startExec', execSchema, { ...box(id, o), json: request, headersMs })
    },
    getExec: (id, execId, o) => http.json('getExec', execSchema, exec(id, execId, o)),
    listExecs: (id, o) =>
      pages(
        (cursor) => http.json('listExecs', execListSchema, { ...box(id, o), query: { cursor } }),
        ({ execs }) => execs,
      ),
    execEvents: (id, execId, o = {}) =>
      followEvents({
        after: o.after ?? 0,
        reconnect: o.reconnect ?? true,
        signal: o.signal,
        open: (after) =>
          http.send('execEvents', { ...exec(id, execId, o), query: { after }, bodyMs: EVENTS_SILENCE_MS }),
        failed: (error) => http.fault(error, 'execEvents', exec(id, execId, o), 'stream'),
        dice,
      }),
    execOutput: async (id, execId, stream, o = {}) => {
      const call = { ...exec(id, execId, o), params: { id, execId, stream }, headers: rangeOf(o) }
      return http.bytes('execOutput', await http.send('execOutput', call), call)
    },
    openOutput: async (id, execId, stream, o = {}) => {
      const headers = o.range === undefined ? {} : { range: o.range }
      const answer = await http.send('execOutput', { ...exec(id, execId, o), params: { id, execId, stream }, headers })
      return { status: answer.status, headers: passedOn(answer.headers), body: answer.body }
    },
    waitExec: async (id, execId, o = {}) => {
      const once = (): Promise<Exec> =>
        http.json('waitExec', execSchema, {
          ...exec(id, execId, o),
          query: { timeoutMs: WAIT_MS },
          headersMs: WAIT_MS + (options.headersMs ?? HEADERS_MS),
        })
      for (;;) {
        const record = await retrying(once, { policy: RUNNER_AWAY, signal: o.signal, dice })
        if (record.exit !== null) return record
      }
    },
    killExec: (id, execId, o) =>
      http.json('killExec', execSchema, {
        ...exec(id, execId, o),
        ...(o?.burn === true ? { query: { burn: 1 } } : {}),
        headersMs: KILL_MS,
      }),
    signalExec: (id, execId, signal, o) =>
      http.json('signalExec', execSchema, { ...exec(id, execId, o), json: { signal } }),
    writeStdin: (id, execId, bytes, input = {}, o = {}) =>
      http.json('writeStdin', execSchema, {
        ...exec(id, execId, o),
        bytes,
        query: { eof: input.eof === true ? 1 : undefined },
        headersMs: 0,
      }),
    readFile: async (id, path, o) => {
      const call = file(id, path, o)
      const answer = await http.send('readFile', call)
      return { bytes: await http.bytes('readFile', answer, call), etag: String(answer.headers['etag'] ?? '') }
    },
    writeFile: (id, path, bytes, o) => http.json('writeFile', { parse: parseTag }, { ...file(id, path, o), bytes }),
    deleteFile: (id, path, o) => nothing('deleteFile', file(id, path, o)),
    listFiles: (id, glob, o) =>
      pages(
        (cursor) => http.json('listFiles', fileListSchema, { ...box(id, o), query: { glob, cursor } }),
        ({ files }) => files,
      ),
    takeCheckpoint: (id, create = {}, o) =>
      http.json('takeCheckpoint', checkpointSchema, { ...box(id, o), json: create, headersMs: RESTORE_MS }),
    listCheckpoints: (id, o) => http.json('listCheckpoints', checkpointListSchema, box(id, o)),
    removeCheckpoint: (id, cid, o) =>
      nothing('removeCheckpoint', { params: { id, cid }, signal: o?.signal, headersMs: RESTORE_MS }),
    diffCheckpoint: (id, cid, to, o) =>
      http.json('diffCheckpoint', checkpointDiffSchema, { ...diffed(id, cid, to, o), headers: {} }),
    patchOfCheckpoint: async (id, cid, to, o) => {
      const call = diffed(id, cid, to, o)
      return http.bytes('diffCheckpoint', await http.send('diffCheckpoint', call), call)
    },
    restoreCheckpoint: (id, cid, request = {}, o = {}) =>
      http.json('restoreCheckpoint', restoredSchema, {
        params: { id, cid },
        signal: o.signal,
        json: request,
        headersMs: RESTORE_MS,
      }),
    close: () => http.close(),
  }
}

// ---- details ----

const onlyIfIdle = (o: IfIdle = {}): CallOptions => (o.ifIdle === true ? { query: { ifIdle: 1 } } : {})

/** How long the runner may wait until a background process is ready. */
function readyMsOf({ background }: ExecRequest): number {
  if (background === undefined) return 0
  return (background === true ? undefined : background.timeoutMs) ?? BACKGROUND_READY_MS
}
const RESTORE_MS = 660_000 // the runner gives up after ten minutes

const diffed = (id: string, cid: string, to: string | undefined, o: Cancellable = {}): CallOptions => ({
  params: { id, cid },
  query: { to },
  headers: { accept: 'text/x-diff' },
  signal: o.signal,
  headersMs: RESTORE_MS,
})

const KILL_MS = 120_000 // the longest grace period is a minute

async function pages<P extends { readonly next?: string | undefined }, T>(
  fetch: (cursor: string | undefined) => Promise<P>,
  itemsOf: (page: P) => readonly T[],
): Promise<T[]> {
  const all: T[] = []
  let cursor: string | undefined
  do {
    const page = await fetch(cursor)
    all.push(...itemsOf(page))
    cursor = page.next
  } while (cursor !== undefined)
  return all
}

function parseTag(value: unknown): { readonly etag: string } {
  const etag = typeof value === 'object' && value !== null && 'etag' in value ? value.etag : undefined
  if (typeof etag !== 'string') throw new TypeError('a response without an etag')
  return { etag }
}

/** Which of a runner's headers describe the bytes. */
const OUTPUT_HEADERS = ['accept-ranges', 'content-length', 'content-range', 'content-type'] as const

function passedOn(headers: RunnerAnswer['headers']): Record<string, string> {
  return Object.fromEntries(
    OUTPUT_HEADERS.flatMap((name) => (headers[name] === undefined ? [] : [[name, String(headers[name])]])),
  )
}

function rangeOf(o: { readonly from?: number; readonly to?: number }): Record<string, string> {
  if (o.from === undefined && o.to === undefined) return {}
  return { range: `bytes=${o.from ?? 0}-${o.to === undefined ? '' : o.to - 1}` }
}
