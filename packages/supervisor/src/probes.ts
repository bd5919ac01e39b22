/** Probes a child over HTTP, over TCP or through the caller's function. Never throws, and every probe has a time limit. */
import http from 'node:http'
import net from 'node:net'
import { duration, errorCode, messageOf } from '@breakfall/faults/internal'
import { type Clock, unlessAborted } from './clock.ts'
import { portOwner, type SocketAddress } from './port-owner.ts'
import type { Leader } from './process-table.ts'
import type { Alive, Ready } from './spec.ts'

export type ProbeResult = {
  readonly ok: boolean
  /** `busy` is a 503: not now. `rejected` is any other refusal. `none`: nothing answered in time. */
  readonly answer: 'ok' | 'busy' | 'rejected' | 'none'
  readonly why: string
  /** Not ready yet, but the child itself said so: it is alive. */
  readonly isActivity: boolean
  /** The child does not listen there: the port refuses, or another process has it. */
  readonly isNotListening: boolean
}

export type ProbeTarget = Extract<Ready, { kind: 'http' | 'tcp' | 'probe' }> | Alive

export const PROBE_DEFAULTS = {
  readyEveryMs: 100, // a caller is waiting for the start
  aliveEveryMs: 10_000,
  timeoutMs: 5_000, // a busy model server answers its health check late
  failuresMax: 3,
} as const

export type ProbeContext = {
  readonly leader: Leader
  readonly signal: AbortSignal
  readonly clock: Clock
  /** Verify that the process that answers is the child. */
  readonly prove: boolean
  /** Verify it for a negative answer too. That reads the entry of every process on the machine. */
  readonly identifyAlways: boolean
}

export async function runProbe(target: ProbeTarget, context: ProbeContext): Promise<ProbeResult> {
  const limit = new AbortController()
  const cut = (): void => limit.abort()
  const timeoutMs = target.timeoutMs ?? PROBE_DEFAULTS.timeoutMs
  const cancel = context.clock.after(timeoutMs, cut)
  context.signal.addEventListener('abort', cut, { once: true })
  try {
    const found = await resultOf(target, context, limit.signal)
    return limit.signal.aborted && !found.ok ? result('none', `no answer within ${duration(timeoutMs)}`) : found
  } catch (error) {
    return result('rejected', messageOf(error))
  } finally {
    cancel()
    context.signal.removeEventListener('abort', cut)
  }
}

// ---- details ----

async function resultOf(target: ProbeTarget, context: ProbeContext, signal: AbortSignal): Promise<ProbeResult> {
  switch (target.kind) {
    case 'probe': {
      const answer = await unlessAborted(target.probe({ pid: context.leader.pid, signal }), signal)
      return result(answer === true ? 'ok' : 'rejected', 'its probe returned false')
    }
    case 'tcp':
      return identified(await connects(target.host ?? '127.0.0.1', target.port, signal), context)
    case 'http':
      return identified(await statusOf(new URL(target.url), signal), context)
  }
}

/** A result, and the address that answered if one did. */
type Answered = ProbeResult & { readonly from?: SocketAddress }

async function identified({ from, ...found }: Answered, context: ProbeContext): Promise<ProbeResult> {
  const { leader, prove, identifyAlways } = context
  if (from === undefined || !(found.ok || identifyAlways)) return found
  const owner = prove ? await portOwner(leader, from) : 'unknown'
  if (owner === 'ours' || owner === 'unknown') return { ...found, isActivity: true }
  return { ...result('rejected', `another process answers on port ${from.port}`), isNotListening: true }
}

const result = (answer: ProbeResult['answer'], why: string): ProbeResult => ({
  ok: answer === 'ok',
  answer,
  why: answer === 'ok' ? '' : why,
  isActivity: false,
  isNotListening: false,
})

const unanswered = (error: Error): ProbeResult => ({
  ...result('none', error.message),
  isNotListening: errorCode(error) === 'ECONNREFUSED',
})

function addressOf(socket: net.Socket): { readonly from?: SocketAddress } {
  const { remoteAddress: address, remotePort: port } = socket
  return address === undefined || port === undefined ? {} : { from: { address, port } }
}

function answerOf(status: number): ProbeResult['answer'] {
  if (status >= 200 && status < 300) return 'ok'
  return status === 503 ? 'busy' : 'rejected'
}

/** A new connection for each probe: a kept one would hold a descriptor and hide a server that no longer accepts. */
async function statusOf(url: URL, signal: AbortSignal): Promise<Answered> {
  return new Promise<Answered>((resolve) => {
    const request = http.get(url, { agent: false, signal, headers: { connection: 'close' } }, (response) => {
      const status = response.statusCode ?? 0
      const from = addressOf(response.socket)
      response.on('error', () => resolve(result('rejected', 'its response broke off')))
      response.resume()
      response.destroy()
      resolve({ ...result(answerOf(status), `${url.pathname} returned ${status}`), ...from })
    })
    request.on('error', (error) => resolve(unanswered(error)))
  })
}

async function connects(host: string, port: number, signal: AbortSignal): Promise<Answered> {
  return new Promise<Answered>((resolve) => {
    const socket = net.connect({ host, port, signal })
    socket.once('connect', () => {
      resolve({ ...result('ok', ''), ...addressOf(socket) })
      socket.destroy()
    })
    socket.on('error', (error) => resolve(unanswered(error)))
  })
}
