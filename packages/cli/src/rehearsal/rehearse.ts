/** Runs a rehearsal instead of a real model: on request, without a prompt, or if there is no model at all. */
import { spawnSync } from 'node:child_process'
import { DaemonClient } from '@breakfall/client'
import { Fault } from '@breakfall/faults'
import type { Env } from '../config/env.ts'
import { ChildDaemon } from '../daemon/child.ts'
import { onRestart } from '../run/child-daemon.ts'
import { followTurn } from '../run/follow-turn.ts'
import type { RunContext } from '../run/options.ts'
import { startRehearsal } from './environment.ts'

export async function rehearse(
  context: RunContext,
  prompt: string | undefined,
  resultFields: Readonly<Record<string, unknown>> = {},
): Promise<number> {
  const { out, interrupt, config } = context
  const { faults, parkWaitMs } = context.options
  const isolation = context.options.isolation ?? (hasWorkingBwrap() ? 'bwrap' : 'process')
  if (isolation === 'process')
    out.say(
      context.options.isolation === 'process'
        ? 'this rehearsal runs its commands without a sandbox, as you asked (level "process").'
        : 'bubblewrap does not work here, so this rehearsal runs its commands without a sandbox (level "process").',
    )
  const rehearsal = await startRehearsal({ plan: faults === 'none' ? 'rate=0' : faults, prompt, isolation })
  const injected = faults === undefined ? 'injecting a broken stream, a stall and a moved runner' : `faults: ${faults}`
  out.say(`model: ${rehearsal.modelName}, scripted; ${injected}`)
  const { folder, stateDir } = rehearsal
  const env = { ...withoutBreakfall(config.childEnv), ...rehearsal.env }
  const daemon = new ChildDaemon({ args: ['--state-dir', stateDir], env, cwd: folder, onRestart: onRestart(out) })
  try {
    interrupt.throwIfInterrupted()
    const address = await interrupt.unlessInterrupted(daemon.address())
    return await followTurn(
      {
        client: new DaemonClient(address, { locate: () => daemon.address() }),
        prompt: rehearsal.prompt,
        create: { title: 'rehearsal', box: { workspace: folder, isolation: { level: isolation } } },
        session: undefined,
        parkWaitMs,
        interrupt,
        isLasting: () => false,
        onEvent: (event) => rehearsal.onEvent(event),
        resultFields: { rehearsal: true, ...resultFields },
      },
      out,
    )
  } finally {
    await daemon.release()
    await rehearsal.close()
  }
}

/** Nothing is set and nothing answers. Messages before and after say that the prompt was not sent. */
export async function rehearseInstead(context: RunContext): Promise<number> {
  const { out, config } = context
  const how = howToSetModel(config.checkout)
  const [set] = [...config.loaded.origins].filter(([key]) => key.startsWith('model.'))
  if (set !== undefined)
    throw new Fault('invalid_request', {
      error: `${set[0]} is set (${set[1]}), but there is no model server: none is configured, and none answers on this machine. ${how}`,
    })
  const warning = 'warning: YOUR PROMPT WAS NOT SENT. No model is configured, and none answers on this machine'
  out.say(out.styleErr('yellow', `${warning}, so this is a rehearsal:`))
  out.say(`a scripted model on a sample task, in a scratch folder. ${how}\n`)
  const code = await rehearse(context, undefined, { promptSent: false })
  out.say(out.styleErr('yellow', `\n${warning}.`))
  out.say(how)
  return code
}

/** How to set a model, with a command that works from the current folder. Pure. */
export function howToSetModel(checkout: string | undefined): string {
  const command = checkout === undefined ? 'breakfall' : shellQuoted(`${checkout}/packages/cli/bin/breakfall.mjs`)
  return `Set OPENAI_BASE_URL, OPENAI_API_KEY or ANTHROPIC_API_KEY, start Ollama or llama-server, or see: ${command} config example`
}

export const shellQuoted = (path: string): string =>
  /^[\w/.@+-]+$/.test(path) ? path : `'${path.replaceAll("'", `'\\''`)}'`

// ---- details ----

const withoutBreakfall = (env: Env): Env =>
  Object.fromEntries(Object.entries(env).filter(([name]) => !name.startsWith('BREAKFALL_')))

function hasWorkingBwrap(): boolean {
  return (
    spawnSync('bwrap', ['--unshare-all', '--ro-bind', '/', '/', '--proc', '/proc', '--dev', '/dev', 'true'], {
      timeout: 10_000,
    }).status === 0
  )
}
