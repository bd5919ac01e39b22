/** Runs a rehearsal instead of a real model: on request, or `npm start` without a prompt. */
import { spawnSync } from 'node:child_process'
import { DaemonClient, RECONNECT_POLICY } from '@breakfall/client'
import type { Environment } from '@breakfall/supervisor/platform'
import { ChildDaemon } from '../daemon/child.ts'
import { onRestart } from '../run/child-daemon.ts'
import { followTurn } from '../run/follow-turn.ts'
import type { Output } from '../render/output.ts'
import { shellQuoted } from '../render/shell-quoted.ts'
import type { RunContext } from '../run/options.ts'
import { startRehearsal } from './environment.ts'

export async function rehearse(context: RunContext, prompt: string | undefined): Promise<number> {
  const { out, interrupt, config } = context
  const { faults, parkWaitMs } = context.options
  const isolation = chosenIsolation(context.options.isolation, 'this rehearsal', out)
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
        client: new DaemonClient(address, { locate: () => daemon.address(), policy: RECONNECT_POLICY }),
        prompt: rehearsal.prompt,
        create: {
          title: 'rehearsal',
          model: rehearsal.modelName,
          provider: rehearsal.provider,
          box: { workspace: folder, isolation: { level: isolation }, checkpoints: 'auto' },
          policy: { approve: 'never' }, // its commands are scripted, and its folder is temporary
        },
        session: undefined,
        parkWaitMs,
        interrupt,
        isLasting: () => false,
        onEvent: (event) => rehearsal.onEvent(event),
        saysInstructions: false, // a scripted model reads none
        resultFields: { rehearsal: true },
      },
      out,
    )
  } finally {
    await daemon.release()
    await rehearsal.close()
  }
}

/** The requested level, or the best that works here. Says so if that is no sandbox. */
export function chosenIsolation(
  asked: 'bwrap' | 'process' | undefined,
  what: string,
  out: Pick<Output, 'say'>,
): 'bwrap' | 'process' {
  const isolation = asked ?? (hasWorkingBwrap() ? 'bwrap' : 'process')
  if (isolation === 'process')
    out.say(
      asked === 'process'
        ? `${what} runs its commands without a sandbox, as you asked (level "process").`
        : `bubblewrap does not work here, so ${what} runs its commands without a sandbox (level "process").`,
    )
  return isolation
}

/** How to set a model, with a command that works from the current folder. Pure. */
export function howToSetModel(checkout: string | undefined): string {
  const command = checkout === undefined ? 'breakfall' : `npm --prefix ${shellQuoted(checkout)} start --`
  return `Set OPENAI_BASE_URL, OPENAI_API_KEY or ANTHROPIC_API_KEY, pass --base-url URL, start Ollama or llama-server, or see: ${command} config example`
}

// ---- details ----

/** The caller's own settings do not matter here. */
export const withoutBreakfall = (env: Environment): Environment =>
  Object.fromEntries(Object.entries(env).filter(([name]) => !name.startsWith('BREAKFALL_')))

function hasWorkingBwrap(): boolean {
  return (
    spawnSync('bwrap', ['--unshare-all', '--ro-bind', '/', '/', '--proc', '/proc', '--dev', '/dev', 'true'], {
      timeout: 10_000,
    }).status === 0
  )
}
