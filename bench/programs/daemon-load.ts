/**
 * The other side of a daemon under load, in a separate process: the model that answers, and the readers. Both use the
 * same clock, so a reader knows from the model's timestamp how long a delta was on its way.
 */
import { once } from 'node:events'
import { Agent, type IncomingMessage, request } from 'node:http'
import { startStreamServer } from './stream-server.ts'

export type Load = { readonly url: string; readonly token: string; readonly sessions: number }
export type LoadResult = { readonly latenciesMs: readonly number[]; readonly seconds: number }

const agent = new Agent({ keepAlive: true, maxSockets: 64 })

function ask(load: Load, method: string, path: string, over: Agent | false): Promise<IncomingMessage> {
  const headers = { authorization: `Bearer ${load.token}`, 'content-type': 'application/json' }
  return new Promise((resolve, reject) => {
    const call = request(load.url + path, { method, headers, agent: over }, resolve).on('error', reject)
    call.end(
      method === 'POST' ? JSON.stringify(path.endsWith('/turns') ? { prompt: 'talk' } : { tools: [] }) : undefined,
    )
  })
}

async function post(load: Load, path: string): Promise<{ id: string }> {
  const answer = await ask(load, 'POST', path, agent)
  let text = ''
  for await (const chunk of answer) text += String(chunk)
  if ((answer.statusCode ?? 500) >= 300) throw new Error(`${path}: ${answer.statusCode} ${text}`)
  return JSON.parse(text) as { id: string }
}

/** Reads a session to the end of its turn. */
function heard(events: IncomingMessage, latenciesMs: number[]): Promise<void> {
  return new Promise((resolve, reject) => {
    events.setEncoding('utf8')
    let held = ''
    events.on('error', reject)
    events.on('data', (chunk: string) => {
      const now = process.hrtime.bigint()
      const frames = (held + chunk).split('\n\n')
      held = frames.pop() ?? ''
      for (const frame of frames) {
        if (frame.startsWith('event: text-delta'))
          for (const [stamp] of /"text":"([^"]*)"/.exec(frame)?.[1]?.matchAll(/\d+/g) ?? [])
            latenciesMs.push(Number(now - BigInt(stamp)) / 1e6)
        if (frame.startsWith('event: turn-e')) {
          if (!frame.startsWith('event: turn-end')) reject(new Error(frame))
          events.destroy()
          resolve()
        }
      }
    })
  })
}

async function run(load: Load): Promise<LoadResult> {
  const latenciesMs: number[] = []
  const ids = await Promise.all(
    Array.from({ length: load.sessions }, async () => (await post(load, '/v1/sessions')).id),
  )
  const streams = await Promise.all(ids.map((id) => ask(load, 'GET', `/v1/sessions/${id}/events`, false)))
  const from = performance.now()
  const reading = streams.map((events) => heard(events, latenciesMs))
  await Promise.all(ids.map((id) => post(load, `/v1/sessions/${id}/turns`)))
  await Promise.all(reading)
  return { latenciesMs, seconds: (performance.now() - from) / 1000 }
}

const modelUrl = await startStreamServer()
process.send?.({ modelUrl })
const [load] = (await once(process, 'message')) as [Load]
process.send?.(await run(load), () => process.exit(0))
