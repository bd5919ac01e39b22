/**
 * One request through the fault proxy: pass it on, and inject the planned fault into the answer.
 *
 * I1  Without a fault the answer's status, headers and body are the upstream's, byte for byte.
 * I2  When a client disconnects, its upstream request is aborted, in every phase including delays.
 * I3  Every planned fault is logged once, as injected or as missed.
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { sleep } from '@breakfall/faults'
import { finish, reset, writeRaw } from './connection.ts'
import { dialectOf, errorJson, pingEvent } from './dialect.ts'
import { type BodyFault, type ChaosFault, FAULT_KINDS, isBodyFault } from './fault-kinds.ts'
import type { Injection } from './injections.ts'
import type { Ending, Instruction } from './stream-cuts.ts'
import { cutFor } from './stream-cuts.ts'
import { SseBlocks } from './sse-blocks.ts'
import { answerHeaders, askUpstream } from './upstream.ts'
import { cutWholeBody } from './whole-body.ts'

export type Exchange = {
  readonly req: IncomingMessage
  readonly res: ServerResponse
  readonly body: Buffer
  readonly upstream: URL
  readonly fault: ChaosFault | undefined
  readonly now: () => number
  /** Aborted when the client disconnects. */
  readonly gone: AbortSignal
  /** Refuses connections for this long. */
  readonly refuse: (ms: number) => Promise<void>
  /** The next request on this connection is reset. */
  readonly makeStale: () => void
  readonly onHit: (outcome: Injection['outcome'], forwarded: Forwarded) => void
}

export type Forwarded = { bytes: number; events: number }

/** Resolves once the answer is sent, as far as the fault lets it. Rejects if the upstream itself fails. */
export async function runExchange(exchange: Exchange): Promise<void> {
  const { fault } = exchange
  if (fault === undefined) return passAnswer(exchange, await ask(exchange))
  if (isBodyFault(fault)) return failBody(exchange, fault)
  const { stage } = FAULT_KINDS[fault.kind]
  if (stage === 'request') return failRequest(exchange, fault)
  if (stage === 'headers') return failHeaders(exchange, fault)
  return failLater(exchange)
}

// ---- details, in the instruction of the stages ----

const NOTHING: Forwarded = { bytes: 0, events: 0 }

function ask(exchange: Exchange): Promise<IncomingMessage> {
  const isBodyNeededPlain = exchange.fault !== undefined && isBodyFault(exchange.fault)
  return askUpstream(exchange.upstream, exchange.req, exchange.body, { signal: exchange.gone, isBodyNeededPlain })
}

async function failRequest(exchange: Exchange, fault: ChaosFault): Promise<void> {
  const { req, res } = exchange
  if (fault.kind === 'status') {
    exchange.onHit('injected', NOTHING)
    return sendStatus(exchange, Number(fault['status']), String(fault['retryAfter']))
  }
  if (fault.kind === 'refuse') await exchange.refuse(Number(fault['ms']))
  exchange.onHit('injected', NOTHING)
  await (fault.kind === 'fin_before_headers' ? finish(req.socket) : reset(req.socket))
  res.destroy()
}

function sendStatus({ req, res, now }: Exchange, status: number, wait: string): void {
  const message = `injected by the fault proxy: ${status}`
  const body = errorJson(dialectOf(req.url ?? ''), status, message)
  const headers = {
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(body),
    ...waitHeader(wait, now()),
  }
  res.writeHead(status, headers).end(body)
}

function waitHeader(wait: string, now: number): Record<string, string> {
  const [, date, amount, unit] = /^(date:)?([\d.]+)(s|ms)$/.exec(wait) ?? []
  if (amount === undefined) return {}
  if (unit === 'ms') return { 'retry-after-ms': amount }
  return { 'retry-after': date === undefined ? amount : new Date(now + Number(amount) * 1000).toUTCString() }
}

async function failHeaders(exchange: Exchange, fault: ChaosFault): Promise<void> {
  const answer = await ask(exchange)
  if (fault.kind === 'slow_headers') {
    exchange.onHit('injected', NOTHING)
    await wait(Number(fault['ms']), exchange.gone)
    return passAnswer(exchange, answer)
  }
  const { socket } = exchange.req
  const head = `HTTP/1.1 ${answer.statusCode} ${answer.statusMessage}\r\n${rawHead(answerHeaders(answer))}`
  await writeRaw(socket, head.slice(0, Math.max(12, Math.floor(head.length / 2))))
  exchange.onHit('injected', NOTHING)
  answer.destroy()
  await (fault.kind === 'fin_in_headers' ? finish(socket) : reset(socket))
}

const rawHead = (headers: readonly string[]): string =>
  headers.map((text, i) => (i % 2 === 0 ? `${text}: ` : `${text}\r\n`)).join('')

async function failLater(exchange: Exchange): Promise<void> {
  await passAnswer(exchange, await ask(exchange))
  exchange.makeStale()
  exchange.onHit('injected', NOTHING)
}

async function failBody(exchange: Exchange, fault: BodyFault): Promise<void> {
  const answer = await ask(exchange)
  const forwarded: Forwarded = { bytes: 0, events: 0 }
  let isHit = false
  const onInstruction = (instruction: Instruction): void => {
    if (!instruction.isHit || isHit) return
    isHit = true
    exchange.onHit('injected', { ...forwarded })
  }
  try {
    const isStream = /^text\/event-stream/i.test(answer.headers['content-type'] ?? '')
    await (isStream ? failStream : failWhole)(exchange, fault, answer, forwarded, onInstruction)
  } finally {
    answer.destroy()
    if (!isHit) exchange.onHit('missed', forwarded) // I3
  }
}

type BodyFailure = (
  exchange: Exchange,
  fault: BodyFault,
  answer: IncomingMessage,
  forwarded: Forwarded,
  onInstruction: (instruction: Instruction) => void,
) => Promise<void>

const failStream: BodyFailure = async (exchange, fault, answer, forwarded, onInstruction) => {
  const { res } = exchange
  writeHead(exchange, answer, ['content-length'])
  const dialect = dialectOf(exchange.req.url ?? '')
  const cut = cutFor(fault, dialect)
  const blocks = new SseBlocks()
  const perform = async (instruction: Instruction, isEvent: boolean): Promise<boolean> => {
    const isPause = instruction.ending?.do === 'resume'
    if (isPause) {
      onInstruction(instruction)
      await end(exchange, instruction.ending)
    }
    if (instruction.forward !== null) {
      await send(res, instruction.forward, forwarded)
      if (isEvent) forwarded.events += 1
    }
    if (!isPause) onInstruction(instruction)
    if (instruction.ending === undefined || isPause) return false
    await end(exchange, instruction.ending)
    return true
  }
  for await (const chunk of chunksOf(answer)) {
    for (const block of blocks.push(chunk)) {
      if (await perform(cut.block(block), block.data !== undefined)) return
    }
  }
  if (!(await perform(cut.end(blocks.rest()), false))) res.end()
}

const failWhole: BodyFailure = async (exchange, fault, answer, forwarded, onInstruction) => {
  const chunks: Buffer[] = []
  for await (const chunk of chunksOf(answer)) chunks.push(chunk)
  const body = Buffer.concat(chunks)
  const instruction = cutWholeBody(fault, dialectOf(exchange.req.url ?? ''), body)
  const { forward, ending } = instruction
  // A cut that should look complete must drop the length that would reveal it; an obvious cut keeps it.
  const isLengthKept = !instruction.isHit || ['reset', 'fin', 'stall', 'stall_with_pings', 'pause'].includes(fault.kind)
  writeHead(exchange, answer, isLengthKept ? [] : ['content-length', 'content-md5', 'etag'])
  if (forward !== null && forward.length > 0) await send(exchange.res, forward, forwarded)
  onInstruction(instruction)
  if (ending !== undefined) await end(exchange, ending)
  if (ending?.do === 'resume') {
    await send(exchange.res, body.subarray(forward?.length ?? 0), forwarded)
    exchange.res.end()
  }
}

async function end(exchange: Exchange, ending: Ending): Promise<void> {
  const { req, res, gone } = exchange
  switch (ending.do) {
    case 'reset':
      return reset(req.socket)
    case 'fin':
      return finish(req.socket)
    case 'end':
      res.end()
      return undefined
    case 'resume':
      return wait(ending.afterMs, gone)
    case 'hold': {
      const ping = ending.pingMs === null ? undefined : pingEvent(dialectOf(req.url ?? ''))
      const timer = ping && setInterval(() => res.write(ping), ending.pingMs ?? 0)
      try {
        await wait(ending.ms, gone)
      } finally {
        clearInterval(timer)
      }
      return finish(req.socket)
    }
  }
}

/** Throws once the client is gone. */
async function wait(ms: number, gone: AbortSignal): Promise<void> {
  await sleep(ms, gone)
  gone.throwIfAborted()
}

async function passAnswer(exchange: Exchange, answer: IncomingMessage): Promise<void> {
  const { res } = exchange
  writeHead(exchange, answer, [])
  for await (const chunk of chunksOf(answer)) await send(res, chunk, { bytes: 0, events: 0 })
  if (answer.rawTrailers.length > 0) res.addTrailers(pairs(answer.rawTrailers))
  res.end()
}

function writeHead({ req, res }: Exchange, answer: IncomingMessage, without: readonly string[]): void {
  res.sendDate = false // I1: the upstream's date, or none
  const headers = answerHeaders(answer, without)
  if (isCloseDelimited(req, answer)) {
    res.removeHeader('transfer-encoding') // the body ends with the connection, as it did upstream
    headers.push('Connection', 'close')
  }
  res.writeHead(answer.statusCode ?? 502, answer.statusMessage, headers)
  res.flushHeaders()
}

function isCloseDelimited({ method }: IncomingMessage, { headers, statusCode = 0 }: IncomingMessage): boolean {
  if (method === 'HEAD' || statusCode === 204 || statusCode === 304) return false // no body at all
  return headers['transfer-encoding'] === undefined && headers['content-length'] === undefined
}

/** An HTTP message without an encoding yields buffers. */
const chunksOf = (answer: AsyncIterable<Buffer>): AsyncIterable<Buffer> => answer

/** Waits until the kernel has the bytes, so a reset comes after them. */
async function send(res: ServerResponse, bytes: Buffer, forwarded: Forwarded): Promise<void> {
  if (bytes.length === 0) return
  await new Promise<void>((resolve) => {
    res.once('close', resolve)
    res.write(bytes, () => {
      res.off('close', resolve)
      resolve()
    })
  })
  forwarded.bytes += bytes.length
}

const pair = (name: string, value: string): [string, string] => [name, value]

function pairs(raw: readonly string[]): [string, string][] {
  return raw.flatMap((name, i) => (i % 2 === 0 ? [pair(name, raw[i + 1] ?? '')] : []))
}
