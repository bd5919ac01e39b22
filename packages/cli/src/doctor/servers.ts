/** The doctor's looks at what a run talks to: the daemon, a remote runner, the model. Each is asked as a run would ask it. */
import { remoteRunner } from '@breakfall/daemon'
import { EXIT_CODES, exitCodeOf, isFault, POLICY_DEFAULTS } from '@breakfall/faults'
import type { LoadedConfig } from '../config/load.ts'
import type { Config } from '../config/schema.ts'
import { firstModel } from '../model/first-listed.ts'
import { findDaemon } from '../daemon/find.ts'
import { awayFault, chooseModel, listModels, type ModelChoice } from '../model/choose.ts'
import type { Finding } from './finding.ts'

type Env = Readonly<Record<string, string | undefined>>

export async function checkDaemon(stateDir: string, env: Env): Promise<{ finding: Finding; url?: string }> {
  const check = 'daemon'
  try {
    const client = await findDaemon(stateDir, env)
    if (client === undefined)
      return { finding: { check, verdict: 'ok', found: 'none is running; a run brings its own' } }
    await client.sessions() // its health needs no token, this does
    return { finding: { check, verdict: 'ok', found: `answers at ${client.url}` }, url: client.url }
  } catch (error) {
    return { finding: { check, verdict: 'bad', found: sentenceOf(error) } }
  }
}

/** Nothing where the runner is on this machine: that one is started when it is needed. */
export async function checkRunner({ runner, remote_runner }: Config): Promise<readonly Finding[]> {
  const check = 'runner'
  try {
    const place = await remoteRunner({ ...runner, url: runner?.url ?? remote_runner?.endpoint }, LOOK_MS)
    return place === undefined
      ? []
      : [{ check, verdict: 'ok', found: `${place.runnerId} answers at ${place.url} and takes the token` }]
  } catch (error) {
    const fix = 'start it, or correct [runner] url, tokenFile, resolveCommand or resolveUrl'
    return [{ check, verdict: 'bad', found: sentenceOf(error), fix }]
  }
}

export async function checkModel(loaded: LoadedConfig, env: Env, daemon: string | undefined): Promise<Finding> {
  const check = 'model'
  const choice = await chooseModel(loaded, env, listModels)
  if (choice === undefined && daemon !== undefined)
    return { check, verdict: 'ok', found: `none is configured here; runs use that of the daemon at ${daemon}` }
  if (choice === undefined)
    return {
      check,
      verdict: 'warn',
      found: 'none is configured and none answers locally; runs use the rehearsal model',
      fix: 'set [model] baseUrl, OPENAI_BASE_URL, OPENAI_API_KEY or ANTHROPIC_API_KEY, or start Ollama or llama-server',
    }
  const about = `${choice.name} at ${choice.baseUrl} (${choice.because})`
  const trouble = await troubleWith(choice)
  return trouble === undefined ? { check, verdict: 'ok', found: about } : { check, verdict: 'bad', ...trouble(about) }
}

// ---- details, in the order they are used above ----

const LOOK_MS = 5_000
const MODEL_MS = 3_000

const sentenceOf = (error: unknown): string => (isFault(error) ? error.error : String(error))

type Trouble = (about: string) => { readonly found: string; readonly fix: string }

async function troubleWith(choice: ModelChoice): Promise<Trouble | undefined> {
  const fix = 'start the server, or correct the base URL'
  if ((await awayFault(choice.baseUrl, MODEL_MS)) !== undefined)
    return (about) => ({ found: `${about} does not answer`, fix })
  if (choice.api === 'anthropic-messages') return undefined // its list wants other head lines
  try {
    const first = await firstModel(choice, { ...POLICY_DEFAULTS, attemptsMax: 1 })
    // A provider that wants a key need not list its models.
    if (first !== undefined || choice.apiKey !== undefined || !choice.isGuessed) return undefined
    return (about) => ({ found: `${about} does not list its models`, fix: 'name one: [model] name, or --model' })
  } catch (error) {
    const isKey = isFault(error) && exitCodeOf(error.report) === EXIT_CODES.credentials
    return (about) => ({ found: `${about}: ${sentenceOf(error)}`, fix: isKey ? 'set a valid key' : fix })
  }
}
