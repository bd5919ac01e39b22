/** Asks a child whether it serves: by HTTP, by TCP, or by a function of the caller. Never throws; every question has a limit. */
import http from 'node:http'
import net from 'node:net'
import { type Clock, unlessAborted } from './clock.ts'
import { listensOn, type Place } from './listeners.ts'
import type { Leader } from './process-table.ts'
import type { Alive, Ready } from './spec.ts'

export type Answer = {
  readonly ok: boolean
  readonly why: string
  /** Not yet ready, but it was the child that said so: it lives. */
  readonly isSign: boolean
  /** The child does not listen there: the port refuses, or another process has it. */
  readonly isElsewhere: boolean
}

type Question = Extract<Ready, { kind: 'http' | 'tcp' | 'probe' }> | Alive

export const PROBE_DEFAULTS = {
  readyEveryMs: 100, // a start is waited for by somebody
  aliveEveryMs: 10_000,
  timeoutMs: 5_000, // a busy model server answers its health check late
  failuresMax: 3,
} as const

export type Asker = {
  readonly leader: Leader
  readonly signal: AbortSignal
  readonly clock: Clock
  /** Look up who it was also where the answer is no. That costs a look at every process of the machine. */
  readonly wantsSign: boolean
}

/** One question. `prove` asks also who it is that listens. */
export async function ask(question: Question, prove: boolean, asker: Asker): Promise<Answer> {
  const limit = new AbortController()
  const cut = (): void => limit.abort()
  const cancel = asker.clock.after(question.timeoutMs ?? PROBE_DEFAULTS.timeoutMs, cut)
  asker.signal.addEventListener('abort', cut, { once: true })
  try {
    return await answerOf(question, prove, asker, limit.signal)
  } catch (error) {
    return answer(false, error instanceof Error ? error.message : String(error))
  } finally {
    cancel()
    asker.signal.removeEventListener('abort', cut)
  }
}

// ---- details ----

async function answerOf(question: Question, prove: boolean, asker: Asker, signal: AbortSignal): Promise<Answer> {
  const { leader, wantsSign } = asker
  switch (question.kind) {
    case 'probe':
      return answer(
        (await unlessAborted(question.probe({ pid: leader.pid, signal }), signal)) === true,
        'its probe says no',
      )
    case 'tcp':
      return proven(await connects(question.host ?? '127.0.0.1', question.port, signal))
    case 'http':
      return proven(await statusOf(new URL(question.url), signal))
  }

  async function proven({ place, ...said }: Heard): Promise<Answer> {
    if (place === undefined || !(said.ok || wantsSign)) return said
    const owner = prove ? await listensOn(leader, place) : 'unknown'
    if (owner === 'ours' || owner === 'unknown') return { ...said, isSign: true }
    return { ...answer(false, `port ${place.port} is answered by another process`), isElsewhere: true }
  }
}

/** An answer, and where it came from where there was somebody. */
type Heard = Answer & { readonly place?: Place }

const answer = (ok: boolean, why: string): Answer => ({ ok, why: ok ? '' : why, isSign: false, isElsewhere: false })

const unanswered = (error: Error): Answer => ({
  ...answer(false, error.message),
  isElsewhere: 'code' in error && error.code === 'ECONNREFUSED',
})

function placeOf(socket: net.Socket): { readonly place?: Place } {
  const { remoteAddress: address, remotePort: port } = socket
  return address === undefined || port === undefined ? {} : { place: { address, port } }
}

/** A fresh connection each time, closed at once: kept ones would hold descriptors and hide that nobody accepts any more. */
async function statusOf(url: URL, signal: AbortSignal): Promise<Heard> {
  return new Promise<Heard>((resolve) => {
    const request = http.get(url, { agent: false, signal, headers: { connection: 'close' } }, (response) => {
      const status = response.statusCode ?? 0
      const place = placeOf(response.socket)
      response.on('error', () => resolve(answer(false, 'its answer broke off')))
      response.resume()
      response.destroy()
      resolve({ ...answer(status >= 200 && status < 300, `${url.pathname} answers ${status}`), ...place })
    })
    request.on('error', (error) => resolve(unanswered(error)))
  })
}

async function connects(host: string, port: number, signal: AbortSignal): Promise<Heard> {
  return new Promise<Heard>((resolve) => {
    const socket = net.connect({ host, port, signal })
    socket.once('connect', () => {
      resolve({ ...answer(true, ''), ...placeOf(socket) })
      socket.destroy()
    })
    socket.on('error', (error) => resolve(unanswered(error)))
  })
}
