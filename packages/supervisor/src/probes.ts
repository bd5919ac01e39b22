/** Asks a child whether it serves: by HTTP, by TCP, or by a function of the caller. Never throws; every question has a limit. */
import http from 'node:http'
import net from 'node:net'
import { type Clock, unlessAborted } from './clock.ts'
import { listensOn } from './listeners.ts'
import type { Leader } from './process-table.ts'
import type { Alive, Ready } from './spec.ts'

export type Answer = { readonly ok: boolean; readonly why: string }

type Question = Extract<Ready, { kind: 'http' | 'tcp' | 'probe' }> | Alive

export const PROBE_DEFAULTS = {
  readyEveryMs: 100, // a start is waited for by somebody
  aliveEveryMs: 10_000,
  timeoutMs: 5_000, // a busy model server answers its health check late
  failuresMax: 3,
} as const

export type Asker = { readonly leader: Leader; readonly signal: AbortSignal; readonly clock: Clock }

/** One question. `prove` asks also who it is that listens. */
export async function ask(question: Question, prove: boolean, asker: Asker): Promise<Answer> {
  const limit = new AbortController()
  const cut = (): void => limit.abort()
  const cancel = asker.clock.after(question.timeoutMs ?? PROBE_DEFAULTS.timeoutMs, cut)
  asker.signal.addEventListener('abort', cut, { once: true })
  try {
    return await answerOf(question, prove, asker.leader, limit.signal)
  } catch (error) {
    return answer(false, error instanceof Error ? error.message : String(error))
  } finally {
    cancel()
    asker.signal.removeEventListener('abort', cut)
  }
}

// ---- details ----

async function answerOf(question: Question, prove: boolean, leader: Leader, signal: AbortSignal): Promise<Answer> {
  switch (question.kind) {
    case 'probe':
      return answer(
        (await unlessAborted(question.probe({ pid: leader.pid, signal }), signal)) === true,
        'its probe says no',
      )
    case 'tcp':
      return proven(await connects(question.host ?? '127.0.0.1', question.port, signal), question.port)
    case 'http': {
      const url = new URL(question.url)
      return proven(await statusOf(url, signal), Number(url.port === '' ? 80 : url.port))
    }
  }

  async function proven(first: Answer, port: number): Promise<Answer> {
    if (!first.ok || !prove) return first
    const owner = await listensOn(leader, port)
    return answer(owner === 'ours' || owner === 'unknown', `port ${port} is answered by another process`)
  }
}

const answer = (ok: boolean, why: string): Answer => ({ ok, why: ok ? '' : why })

/** A fresh connection each time, closed at once: kept ones would hold descriptors and hide that nobody accepts any more. */
async function statusOf(url: URL, signal: AbortSignal): Promise<Answer> {
  return new Promise<Answer>((resolve) => {
    const request = http.get(url, { agent: false, signal, headers: { connection: 'close' } }, (response) => {
      const status = response.statusCode ?? 0
      response.on('error', () => resolve(answer(false, 'its answer broke off')))
      response.resume()
      response.destroy()
      resolve(answer(status >= 200 && status < 300, `${url.pathname} answers ${status}`))
    })
    request.on('error', (error) => resolve(answer(false, error.message)))
  })
}

async function connects(host: string, port: number, signal: AbortSignal): Promise<Answer> {
  return new Promise<Answer>((resolve) => {
    const socket = net.connect({ host, port, signal })
    socket.once('connect', () => {
      resolve(answer(true, ''))
      socket.destroy()
    })
    socket.on('error', (error) => resolve(answer(false, error.message)))
  })
}
