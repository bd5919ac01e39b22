/** A rehearsal instead of a run with a model: on request, without a prompt, or where there is no model at all. */
import { spawnSync } from 'node:child_process'
import { dirname } from 'node:path'
import { Fault } from '@breakfall/faults'
import { DaemonClient } from '../daemon/client.ts'
import { OwnDaemon } from '../daemon/child.ts'
import { startRehearsal } from './environment.ts'
import { run } from '../run/turn.ts'
import { onRestart } from '../run/own-daemon.ts'
import type { RunContext } from '../run/options.ts'

export async function rehearse(
  context: RunContext,
  prompt: string | undefined,
  about: Readonly<Record<string, unknown>> = {},
): Promise<number> {
  const { out, interrupt } = context
  const { faults, parkWaitMs } = context.run
  const isolation = context.run.isolation ?? (hasBwrap() ? 'bwrap' : 'process')
  if (isolation === 'process')
    out.say('bubblewrap does not work here, so this rehearsal runs its commands without a sandbox (level "process").')
  const rehearsal = await startRehearsal({ plan: faults === 'none' ? 'rate=0' : faults, prompt, isolation })
  const injected = faults === undefined ? 'a stream cut, a stall and a moved runner are injected' : `faults: ${faults}`
  out.say(`model: ${rehearsal.modelName}, scripted; ${injected}`)
  const { folder, stateDir } = rehearsal
  const env = { ...withoutBreakfall(context.env), ...rehearsal.env }
  const own = new OwnDaemon({ args: ['--state-dir', stateDir], env, cwd: folder, onRestart: onRestart(out) })
  try {
    interrupt.throwIfAsked()
    const address = await interrupt.unlessAsked(own.address())
    return await run(
      {
        client: new DaemonClient(address, () => own.address()),
        prompt: rehearsal.prompt,
        create: { title: 'rehearsal', box: { workspace: folder, isolation: { min: isolation } } },
        session: undefined,
        parkWaitMs,
        interrupt,
        isLasting: () => false,
        onEvent: (event) => rehearsal.onEvent(event),
        about: { rehearsal: true, ...about },
      },
      out,
    )
  } finally {
    await own.release()
    await rehearsal.close()
  }
}

/** Nothing was named and nothing was found: it is said, before and after, that the prompt is not done. */
export async function rehearseInstead(context: RunContext): Promise<number> {
  const { out, loaded, env } = context
  const how = howToSet(env)
  const [named] = [...loaded.origins].filter(([key]) => key.startsWith('model.'))
  if (named !== undefined)
    throw new Fault('invalid_request', {
      error: `${named[0]} is set (${named[1]}), but no model server: none is configured and none answers on this machine. ${how}`,
    })
  const warning = 'warning: NO MODEL DID YOUR PROMPT. None is configured and none answers on this machine'
  out.say(out.styleErr('yellow', `${warning}, so this is a rehearsal:`))
  out.say(`a scripted model on a task of its own, in a scratch folder. ${how}\n`)
  const code = await rehearse(context, undefined, { promptSent: false })
  out.say(out.styleErr('yellow', `\n${warning}.`))
  out.say(how)
  return code
}

/** What to do about a missing model, in words that work from where this was started. Pure. */
export function howToSet(env: RunContext['env']): string {
  const checkout = checkoutOf(env)
  const command = checkout === undefined ? 'breakfall' : quoted(`${checkout}/packages/cli/bin/breakfall.mjs`)
  return `Set OPENAI_BASE_URL, OPENAI_API_KEY or ANTHROPIC_API_KEY, start Ollama or llama-server, or see: ${command} config example`
}

/** Where `npm start` was asked for, if it was. */
export const checkoutOf = (env: RunContext['env']): string | undefined =>
  env['npm_lifecycle_event'] === 'start' ? dirname(env['npm_package_json'] ?? '.') : undefined

export const quoted = (path: string): string =>
  /^[\w/.@+-]+$/.test(path) ? path : `'${path.replaceAll("'", `'\\''`)}'`

// ---- details ----

const withoutBreakfall = (env: RunContext['env']): Record<string, string | undefined> =>
  Object.fromEntries(Object.entries(env).filter(([name]) => !name.startsWith('BREAKFALL_')))

function hasBwrap(): boolean {
  return (
    spawnSync('bwrap', ['--unshare-all', '--ro-bind', '/', '/', '--proc', '/proc', '--dev', '/dev', 'true'], {
      timeout: 10_000,
    }).status === 0
  )
}
