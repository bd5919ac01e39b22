/** Execs over HTTP. How a command ended is in its record, never an HTTP error. */
import { closeSync, createReadStream, fstatSync, openSync } from 'node:fs'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { Fault } from '@breakfall/faults'
import { execRequestSchema, execSignalSchema } from '@breakfall/wire'
import { invalidRequest } from '@breakfall/wire/internal'
import { bodyChunks, readJson, type RouteResult } from '@breakfall/wire/node'
import type { Box } from '../box/box.ts'
import { burnedRecord } from '../box/burned-execs.ts'
import type { ExecView } from '../box/execs.ts'
import { nextRun } from '../box/restarts.ts'
import { RUNNER_DEFAULTS } from '../lib/defaults.ts'
import { readBases } from '../exec/output-window.ts'
import type { Exec } from '../exec/exec.ts'
import { STREAMS, type Stream } from '../exec/event-log.ts'
import { page, queryNumber } from './paging.ts'
import {
  type ApiContext,
  boxOf,
  boxToChange,
  boxToEnd,
  epochToChange,
  execOf,
  type Handler,
  keyOf,
  refuseFields,
  refuseWhileClosing,
  type RunnerCall,
} from './handler-context.ts'
import { streamEvents } from './event-stream.ts'
import { type ByteRange, rangeHeaders, rangeOf } from './ranges.ts'

type Names =
  | 'startExec'
  | 'listExecs'
  | 'getExec'
  | 'execEvents'
  | 'execOutput'
  | 'waitExec'
  | 'writeStdin'
  | 'signalExec'
  | 'restartExec'
  | 'killExec'

export function execHandlers(context: ApiContext): Record<Names, Handler> {
  return {
    startExec: async (call) => {
      boxToChange(context, call)
      const request = await readJson(call, execRequestSchema)
      const box = boxToChange(context, call) // reading the body took time: the box may be gone by now
      const { exec, isNew } = await box.starter
        .start(request, () => void boxToChange(context, call))
        .catch((error: unknown) => {
          boxOf(context, call) // if the box was removed meanwhile, report that instead
          throw error
        })
      const background = box.execs.live.get(exec.id)?.background
      if (!wantsEvents(call)) await background?.settled(AbortSignal.any([call.signal, context.closing]))
      if (!wantsEvents(call)) return { status: isNew ? 201 : 200, json: exec.record() }
      await streamEvents(exec, afterOf(call, exec), call.res, call.signal, context.closing, isNew ? 201 : 200)
      return undefined
    },
    listExecs: (call) => {
      const { execs } = boxOf(context, call)
      const { items, next } = page(execs.ids(), (id) => id, call.query, RUNNER_DEFAULTS.pageMax)
      return {
        status: 200,
        json: { execs: items.map((id) => execs.get(id).record()), ...(next === undefined ? {} : { next }) },
      }
    },
    getExec: (call) => ({ status: 200, json: execOf(boxOf(context, call), call).record() }),
    execEvents: async (call) => {
      const exec = execOf(boxOf(context, call), call)
      await streamEvents(exec, afterOf(call, exec), call.res, call.signal, context.closing)
      return undefined
    },
    execOutput: (call) => sendOutput(call, execOf(boxOf(context, call), call)),
    waitExec: (call) => wait(context, call, execOf(boxOf(context, call), call)),
    writeStdin: (call) => writeStdin(context, call),
    signalExec: async (call) => {
      execOf(boxToChange(context, call), call)
      const { signal } = await readJson(call, execSignalSchema)
      const exec = liveExec(boxToChange(context, call), call) // reading the body took time: another owner may be here
      if (!(await exec.signal(signal))) throw finished(exec.id)
      return { status: 200, json: exec.record() }
    },
    restartExec: (call) => restart(context, call),
    killExec: async (call) => {
      await refuseFields(call)
      return call.query.get('burn') === '1' ? burn(context, call) : kill(context, call)
    },
  }
}

// ---- details, in the order they are used above ----

async function kill(context: ApiContext, call: RunnerCall): Promise<RouteResult> {
  await boxToEnd(context, call).starter.settled(call.params['execId'] ?? '') // an exec that is being reserved is killed, too
  const box = boxToEnd(context, call)
  const exec = execOf(box, call)
  await box.execs.live.get(exec.id)?.stop('killed')
  await stopRestarts(context, call, box, exec.id)
  return { status: 200, json: exec.isOver ? exec.record() : box.execs.get(exec.id).record() }
}

/** A background process is ended for good: it may wait for its next run, or have just got it. */
async function stopRestarts(context: ApiContext, call: RunnerCall, box: Box, execId: string): Promise<void> {
  const last = box.newestRun(execId)
  if (last === undefined) return
  box.restarts.stop(last)
  await box.starter.settled(nextRun(last)?.execId ?? '')
  const next = boxToEnd(context, call).newestRun(execId)
  if (next !== undefined) await box.execs.live.get(next.execId)?.stop('killed')
}

/** Always its newest run: an earlier one has been replaced already. */
async function restart(context: ApiContext, call: RunnerCall): Promise<RouteResult> {
  await refuseFields(call)
  const box = boxToChange(context, call)
  const reservation = box.newestRun(execOf(box, call).id)
  if (reservation === undefined)
    throw invalidRequest([{ field: 'execId', expected: 'a background process', got: call.params['execId'] ?? '' }])
  await box.execs.live.get(reservation.execId)?.stop('killed')
  boxToChange(context, call) // its end took time: the box may have another owner by now
  const again = box.restarts.again(reservation, () => void boxToChange(context, call))
  if (again === undefined)
    throw new Fault('exec_conflict', { facts: { name: reservation.execId }, boxId: box.id, execId: reservation.execId })
  await again
  const exec = box.execs.get(nextRun(reservation)?.execId ?? '')
  await box.execs.live.get(exec.id)?.background?.settled(AbortSignal.any([call.signal, context.closing]))
  return { status: 200, json: exec.record() }
}

/** Kills the exec; an id that is not known here never starts from now on, with or without a box. */
async function burn(context: ApiContext, call: RunnerCall): Promise<RouteResult> {
  const { prefix = '', id = '', execId = '' } = call.params
  const key = keyOf(call)
  const { host, boxes } = context
  const find = (): Box | undefined => (boxes.find(prefix, id) === undefined ? undefined : boxToEnd(context, call))
  await find()?.starter.settled(execId)
  if (find()?.usedExec(execId) !== undefined) return kill(context, call)
  refuseWhileClosing(context)
  host.fences.check(key, epochToChange(context, call))
  host.fences.burn(key, execId)
  return { status: 200, json: burnedRecord(host, id, execId) }
}

const wantsEvents = (call: RunnerCall): boolean => (call.req.headers.accept ?? '').includes('text/event-stream')

/** The last event that the caller has. A reconnecting EventSource repeats `after`, so its Last-Event-ID header wins. */
function afterOf(call: RunnerCall, exec: ExecView): number {
  const remembered = call.req.headers['last-event-id']
  const text = remembered ?? call.query.get('after') ?? '0'
  const field = remembered === undefined ? 'after' : 'last-event-id'
  const head = exec.end?.lastSeq ?? exec.count
  const after = typeof text === 'string' && /^\d{1,15}$/.test(text) ? Number(text) : Number.NaN
  if (!(after <= head))
    throw invalidRequest([
      { field, expected: `the seq of an event, from 0 to ${head}`, got: JSON.stringify(text).slice(0, 50) },
    ])
  return after
}

function streamOf(call: RunnerCall): Stream {
  const name = STREAMS.find((stream) => stream === call.params['stream'])
  if (name === undefined) throw new Fault('not_found', { facts: { name: 'such stream; use stdout or stderr' } })
  return name
}

async function sendOutput(call: RunnerCall, exec: ExecView): Promise<RouteResult> {
  const stream = streamOf(call)
  const record = exec.record()
  const size = stream === 'stdout' ? record.stdoutBytes : record.stderrBytes
  const fd = size === 0 ? undefined : openSpool(join(exec.folder, stream), size)
  let range: ByteRange | undefined
  try {
    range = keptOf(rangeOf(call, size), readBases(exec.folder)[stream], size)
  } catch (error) {
    if (fd !== undefined) closeSync(fd)
    throw error
  }
  const { from, to } = range ?? { from: 0, to: size }
  call.res.writeHead(range === undefined ? 200 : 206, rangeHeaders(range, size))
  if (fd === undefined || call.method === 'HEAD') {
    if (fd !== undefined) closeSync(fd)
    call.res.end()
    return undefined
  }
  const bytes = createReadStream('', { fd, start: from, end: to - 1, highWaterMark: 256 * 1024 })
  await pipeline(bytes, (chunks: AsyncIterable<Buffer>) => stillKept(chunks, exec.folder, stream, from), call.res)
  return undefined
}

/** Bytes that are given up while they are read become NULs: then the response ends early, so that no reader takes them for output. */
async function* stillKept(
  chunks: AsyncIterable<Buffer>,
  folder: string,
  stream: Stream,
  from: number,
): AsyncGenerator<Buffer> {
  let at = from
  for await (const chunk of chunks) {
    if (chunk.includes(0) && readBases(folder)[stream] > at) throw new Error('its oldest bytes were given up meanwhile')
    at += chunk.length
    yield chunk
  }
}

/**
 * Of a background process that prints much, only the newest bytes are kept: what was asked for without those before `base`, as a
 * part of the whole.
 */
function keptOf(range: ByteRange | undefined, base: number, size: number): ByteRange | undefined {
  if (base === 0 || (range !== undefined && range.from >= base)) return range
  const { to } = range ?? { to: size }
  if (to > base) return { from: base, to }
  throw new Fault('range_not_satisfiable', {
    error: `Bytes before ${base} are past their retention and were deleted; it has ${size} bytes.`,
    errorRaw: `bytes ${base}-${size - 1}/${size} are kept`,
  })
}

function openSpool(file: string, size: number): number {
  let cause: unknown
  try {
    const fd = openSync(file, 'r')
    if (fstatSync(fd).size >= size) return fd
    closeSync(fd) // the disk lost some bytes
  } catch (error) {
    cause = error
  }
  throw new Fault('range_not_satisfiable', {
    cause,
    error: `These ${size} bytes are past their retention and were deleted. The record is still there.`,
  })
}

async function wait(context: ApiContext, call: RunnerCall, exec: ExecView): Promise<RouteResult> {
  const timeoutMs = queryNumber(call.query, 'timeoutMs', {
    min: 0,
    max: RUNNER_DEFAULTS.waitMsMax,
    byDefault: RUNNER_DEFAULTS.waitMs,
  })
  await exec.over(AbortSignal.any([call.signal, context.closing, AbortSignal.timeout(timeoutMs)]))
  if (!exec.isOver && context.closing.aborted) throw new Fault('shutting_down', { boundary: 'runner', execId: exec.id })
  return { status: exec.isOver ? 200 : 202, json: exec.record() }
}

function liveExec(box: Box, call: RunnerCall): Exec {
  const { id } = execOf(box, call)
  const exec = box.execs.live.get(id)
  if (exec === undefined || exec.isOver) throw finished(id)
  return exec
}

const finished = (id: string): Fault => new Fault('exec_finished', { facts: { name: id }, execId: id })

async function writeStdin(context: ApiContext, call: RunnerCall): Promise<RouteResult> {
  const exec = liveExec(boxToChange(context, call), call)
  const eof = call.query.get('eof')
  if (eof !== null && eof !== '1' && eof !== '0')
    throw invalidRequest([{ field: 'eof', expected: '0 or 1', got: JSON.stringify(eof.slice(0, 20)) }])
  const over = new AbortController()
  const either = AbortSignal.any([over.signal, call.signal])
  void exec.over(call.signal).then(() => over.abort())
  try {
    await exec.stdin.write(bounded(context, call), eof === '1', exec.id, () => ready(exec, either), either)
  } catch (error) {
    if (exec.isOver) throw finished(exec.id)
    throw error
  }
  return { status: 200, json: exec.record() }
}

async function ready(exec: Exec, signal: AbortSignal): Promise<void> {
  while (exec.record().state === 'starting' && !exec.isOver && !signal.aborted) await exec.changed(signal)
  if (exec.isOver) throw finished(exec.id)
  exec.stdin.open()
}

async function* bounded(context: ApiContext, call: RunnerCall): AsyncGenerator<Buffer> {
  let bytes = 0
  const max = RUNNER_DEFAULTS.stdinBytesMax
  for await (const chunk of bodyChunks(call.req, context.host.limits.bodySilenceMs)) {
    boxToChange(context, call) // a slow body of an owner that was replaced meanwhile
    bytes += chunk.length
    if (bytes > max) throw new Fault('payload_too_large', { facts: { limit: `at most ${max} bytes per call` } })
    yield chunk
  }
}
