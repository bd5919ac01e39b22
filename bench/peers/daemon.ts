/**
 * The daemon, as `breakfall run` uses it: a turn in a journal on disk, answers through the journal's answer machine, tools in
 * boxes of a real runner. Events are read as any client reads them.
 */
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DaemonClient } from '@breakfall/client'
import { startDaemon } from '@breakfall/daemon'
import { type Runner, startRunner } from '@breakfall/runner'
import type { SessionEvent } from '@breakfall/wire'
import { type Player, RETRIES_MAX, STALL_MS } from './player.ts'

export const daemon: Player = {
  name: 'breakfall run',
  drives: 'daemon',
  package: '@breakfall/daemon',
  settings: `attemptsMax ${RETRIES_MAX + 1}, livenessMs ${STALL_MS}; one daemon with its own journal for each run, one runner for all`,
  async play({ baseUrl, model, prompt, stepsMax, signal }) {
    const { runner, folder } = await (shared ??= startShared())
    const home = mkdtempSync(join(folder, 'run-'))
    const workspace = join(home, 'workspace')
    mkdirSync(workspace)
    const running = await startDaemon({
      stateDir: join(home, 'state'),
      model: { baseUrl, name: model },
      runner: { url: runner.url, tokenFile: runner.tokenFile },
      policy: { attemptsMax: RETRIES_MAX + 1, livenessMs: STALL_MS, stepsMax },
      logLevel: 'silent',
    })
    try {
      const client = new DaemonClient(running, { signal })
      const session = await client.createSession({ tools: ['bash'], box: { workspace } })
      await client.prompt(session.id, prompt)
      const texts = await textsOf(client.events(session.id, { signal }))
      return { texts, log: readFileSync(join(workspace, 'steps.log'), 'utf8') }
    } finally {
      await running.close()
      rmSync(home, { recursive: true, force: true, maxRetries: 3 })
    }
  },
}

/** Ends the runner that all runs share. */
export async function closeShared(): Promise<void> {
  if (shared === undefined) return
  const { runner, folder } = await shared
  await runner.close()
  rmSync(folder, { recursive: true, force: true, maxRetries: 3 })
}

// ---- details ----

type Shared = { readonly runner: Runner; readonly folder: string }

let shared: Promise<Shared> | undefined

async function startShared(): Promise<Shared> {
  const folder = mkdtempSync(join(tmpdir(), 'breakfall-survive-'))
  const runner = await startRunner({
    stateDir: join(folder, 'runner'),
    tokenFile: join(folder, 'token'),
    allowWorkspace: [folder],
    allowIsolation: ['process'],
    boxesMax: 1_000,
    idleExitMs: null,
  })
  return { runner, folder }
}

/** The text of each step: deltas appended, discarded parts dropped. */
async function textsOf(events: AsyncIterable<SessionEvent>): Promise<string[]> {
  const steps: Map<string, string>[] = []
  for await (const event of events) {
    if (event.type === 'step-start') steps.push(new Map())
    const parts = steps.at(-1) ?? new Map<string, string>()
    if (event.type === 'text-delta' || event.type === 'part-discarded') {
      const part = `${event.attempt}/${event.part}`
      if (event.type === 'part-discarded') parts.delete(part)
      else parts.set(part, (parts.get(part) ?? '') + event.text)
    }
    if (event.type === 'turn-error') throw new Error(`${event.category}: ${event.errorRaw}`)
    if (event.type === 'turn-end') break
  }
  return steps.map((parts) => [...parts.values()].join(''))
}
