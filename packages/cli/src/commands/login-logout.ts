/**
 * `breakfall login` and `breakfall logout`: store a provider's key, or remove it.
 *
 * I1  A key comes from a prompt that shows nothing, or from standard input: never from an argument, which other users can read.
 */
import { createInterface } from 'node:readline'
import { Writable } from 'node:stream'
import { text as allOf } from 'node:stream/consumers'
import { Fault } from '@breakfall/faults'
import { providerName } from '@breakfall/wire/internal'
import type { Context } from '../command-line/context.ts'
import { removeKey, storeKey } from '../config/credentials.ts'
import { credentialsFile } from '../config/paths.ts'
import { entryOf } from '../config/providers.ts'
import type { Config } from '../config/schema.ts'
import { command } from '../command-line/command.ts'

export const LOGIN = command({
  usage: 'login <provider>',
  about: "store a provider's key, from a prompt or standard input",
  examples: ['breakfall login cloud', 'pass show openai | breakfall login cloud'],
  keeps: null,
  run: (context, _options, [name = '']) => keepKey(context, name),
})

export const LOGOUT = command({
  usage: 'logout <provider>',
  about: "remove a provider's stored key",
  examples: ['breakfall logout cloud'],
  keeps: null,
  run: (context, _options, [name = '']) => Promise.resolve(forgetKey(context, name)),
})

// ---- details, in the order they are used above ----

async function keepKey({ out, config }: Context, input: string): Promise<void> {
  const name = checkedName(input)
  const provider = config.providers.find((known) => known.name === name)
  if (provider === undefined) throw unknownProvider(name, config.providers)
  const apiKey = checkedKey(process.stdin.isTTY ? await promptFor(name) : await allOf(process.stdin))
  const file = storeKey(config.childEnv, name, apiKey)
  if (out.json) return out.result({ provider: name, file })
  out.line(`stored the key of ${name} in ${file}`)
  const variable = apiKeyEnvOf(name, config.loaded.config)
  if (variable !== undefined && (config.childEnv[variable] ?? '') !== '')
    out.say(`${variable} is set and comes first; unset it to use the stored key`)
}

function forgetKey({ out, config }: Context, input: string): void {
  const name = checkedName(input)
  const file = credentialsFile(config.childEnv)
  if (!removeKey(config.childEnv, name)) throw new Fault('not_found', { error: `${file} has no key of ${name}` })
  if (out.json) out.result({ provider: name, file })
  else out.line(`removed the key of ${name} from ${file}`)
}

/** The variable that the provider's table names. Its key comes before a stored one. */
const apiKeyEnvOf = (name: string, { model, providers = {} }: Config): string | undefined =>
  (name === 'default' ? model : entryOf(providers, name))?.apiKeyEnv

/** A key that no provider uses would be stored for nothing, most likely for a misspelt name. */
function unknownProvider(name: string, providers: readonly { readonly name: string }[]): Fault {
  const known = providers.map((provider) => provider.name)
  const happened = `There is no provider "${name}" in your config.toml${known.length === 0 ? '' : `, only ${known.join(', ')}`}; nothing was stored.`
  const table = name === 'default' ? '[model]' : `[providers.${name}]`
  const baseUrl = entryOf(USUAL_URLS, name) ?? 'https://…/v1'
  return new Fault('invalid_request', {
    error: `${happened} Add it first: ${table} baseUrl = "${baseUrl}"`,
  })
}

const USUAL_URLS: Readonly<Record<string, string>> = {
  openai: 'https://api.openai.com/v1',
  anthropic: 'https://api.anthropic.com/v1',
}

function checkedName(name: string): string {
  if (providerName().safeParse(name).success) return name
  throw new Fault('invalid_request', {
    error: `"${name}" cannot be a provider's name: use 1 to 64 letters, digits, dashes or underscores`,
  })
}

/** What fits into a header. The fault does not repeat it. */
function checkedKey(input: string): string {
  const key = input.trim()
  if (/^[\x21-\x7e]{1,8192}$/.test(key)) return key
  const why = key === '' ? 'is empty' : 'has spaces, line breaks or other characters that no key has'
  throw new Fault('invalid_request', { error: `The key ${why}; nothing was stored` })
}

/** I1 */
async function promptFor(name: string): Promise<string> {
  const silent = new Writable({ write: (_chunk, _encoding, done) => done() })
  const lines = createInterface({ input: process.stdin, output: silent, terminal: true })
  process.stderr.write(`key of ${name} (not shown): `) // after the terminal stops echoing: a key may be pasted at once
  try {
    return await new Promise<string>((resolve, reject) => {
      lines.once('line', resolve)
      lines.once('SIGINT', () => reject(new Fault('cancelled')))
      lines.once('close', () => resolve(''))
    })
  } finally {
    lines.close()
    process.stderr.write('\n')
  }
}
