/** `breakfall config show` and `config example`: what is set, its origin, and what can be set. */
import { redact } from '@breakfall/faults'
import type { Context } from '../../command-line/context.ts'
import type { LoadedConfig } from '../../config/load.ts'
import { aboutKey, type ConfiguredProvider } from '../../config/providers.ts'
import type { ResolvedConfig } from '../../config/resolve.ts'
import { chooseModel, describeModel, isReachable, type ModelChoice } from '../../model/choose.ts'
import { listModels } from '../../model/list.ts'
import { cmd } from '../../process/command-name.ts'
import type { Output } from '../../terminal/output.ts'

export async function configCommand(
  { config, out }: Context,
  { origin = false }: { readonly origin?: boolean },
): Promise<void> {
  showConfig(config, await chooseModel(config.model, listModels), { origin }, out)
}

/** `choice` is the model that a run would use. */
export function showConfig(
  { loaded, providers }: Pick<ResolvedConfig, 'loaded' | 'providers'>,
  choice: ModelChoice,
  options: { origin: boolean },
  out: Pick<Output, 'json' | 'data' | 'result' | 'line' | 'style'>,
): void {
  const rows = [...loaded.origins]
    .sort(([a], [b]) => a.localeCompare(b))
    .map(([key, origin]) => ({ key, value: withoutKeys(valueAt(loaded.config, key)), origin }))
  if (out.json) {
    for (const row of rows) out.data(row)
    const model = choice.kind === 'none' ? null : withoutKeys({ ...choice, apiKey: masked(choice.apiKey) })
    const { config, files, warnings } = loaded
    out.result({ config: withoutKeys(config), files, warnings, model, providers: providers.map(providerWithoutKey) })
    return
  }
  if (rows.length === 0) out.line(`# ${nothingSet(loaded.files)}`)
  for (const { key, value, origin } of rows)
    out.line(`${key} = ${JSON.stringify(value)}${options.origin ? out.style('dim', `   # ${origin}`) : ''}`)
  for (const { name, baseUrl, serve, origin, ...key } of providers)
    out.line(
      out.style(
        'dim',
        `# provider ${name}: ${serve === undefined ? baseUrl : `served by ${serve.command[0]}`} (${origin}), ${aboutKey(key)}`,
      ),
    )
  for (const line of modelLines(choice, loaded)) out.line(out.style('dim', `# ${line}`))
}

/** Which model a run would use, and why. Pure. */
export function modelLines(
  choice: ModelChoice,
  { config, origins }: Pick<LoadedConfig, 'config' | 'origins'>,
): readonly string[] {
  if (choice.kind === 'none')
    return ['a run would have no model: none is set, and none answers on this machine. A prompt would exit with code 2']
  const key = masked(choice.apiKey)
  const variable = isReachable(choice) ? choice.apiKeyVariable : undefined
  const from = choice.isKeyStored ? ` that "${cmd('login')}" stored` : variable === undefined ? '' : ` from ${variable}`
  const isReplaced = choice.kind === 'served' && config.model?.baseUrl !== undefined
  return [
    `a run would use ${describeModel(choice)}`,
    ...(choice.kind === 'served'
      ? [`{port} becomes a free port at each start; to try it: ${cmd('doctor')} --start-model`]
      : []),
    ...(isReplaced ? [`model.baseUrl (${origins.get('model.baseUrl')}) is not used: model.serve comes first`] : []),
    key === null ? 'without a key' : `with the key${from}: ${key}`,
  ]
}

export function shownCommand(command: readonly string[]): readonly string[] {
  return command.map((word, index) => {
    const [, flag, value] = /^(--?[\w-]+)=(.+)$/s.exec(word) ?? []
    if (flag !== undefined && value !== undefined && isSecret(flag)) return `${flag}=…`
    return isSecret(command[index - 1] ?? '') ? '…' : redact(word)
  })
}

// ---- details, in the order they are used above ----

/** Its address and the origin of its key, without the key. */
function providerWithoutKey({ apiKey: _key, ...provider }: ConfiguredProvider): unknown {
  return withoutKeys({ ...provider, key: aboutKey({ ...provider, apiKey: _key }) })
}

/** Without the keys in commands. Every list of words counts as one. */
function withoutKeys(value: unknown): unknown {
  if (Array.isArray(value))
    return value.every((word) => typeof word === 'string') ? shownCommand(value) : value.map(withoutKeys)
  if (typeof value === 'string' && /^postgres(?:ql)?:/.test(value)) return redact(value) // it may have a password
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, withoutKeys(inner)]))
}

const nothingSet = (files: readonly string[]): string =>
  `nothing is set${files.length === 0 ? '' : ` in ${files.join(', ')}`}: all defaults. See: ${cmd('config example')}`

/** The last characters, enough to tell two keys apart. Of a short key, none. */
const masked = (key: string | undefined): string | null =>
  key === undefined || key === '' ? null : `…${key.length < 20 ? '' : key.slice(-4)}`

function valueAt(config: unknown, key: string): unknown {
  let value: unknown = config
  for (const part of key.split('.')) {
    if (typeof value !== 'object' || value === null) return undefined
    value = Object.entries(value).find(([name]) => name === part)?.[1]
  }
  return value
}

/** `--api-key-file` and the like name a file, which may be shown. */
const isSecret = (flag: string): boolean => /^--?[\w-]*(?:api-?key|token|secret|password)$/i.test(flag)
