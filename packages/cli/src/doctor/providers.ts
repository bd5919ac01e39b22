/** The doctor's view of the providers: where each one is, and where its key comes from. Never the key. */
import { looseMode } from '../config/credentials.ts'
import type { Environment } from '@breakfall/supervisor/platform'
import { credentialsFile } from '../config/paths.ts'
import { aboutKey, type ConfiguredProvider, unusable } from '../config/providers.ts'
import type { Finding } from './finding.ts'
import { cmd } from '../process/command-name.ts'

export function checkProviders(providers: readonly ConfiguredProvider[], env: Environment): readonly Finding[] {
  const mode = looseMode(env)
  const file = credentialsFile(env)
  return [
    ...providers.map(findingOf),
    ...(mode === undefined
      ? []
      : [
          {
            check: 'credentials',
            verdict: 'bad',
            found: `other users can read ${file} (mode ${mode})`,
            fix: `chmod 600 ${file}`,
          } as const,
        ]),
  ]
}

// ---- details ----

function findingOf(provider: ConfiguredProvider): Finding {
  const { name, baseUrl, serve, apiKey, apiKeyVariable } = provider
  const where = serve === undefined ? baseUrl : `served by ${serve.command[0]}`
  const found = `${name}: ${where}, ${aboutKey(provider)}`
  const badKey = unusable(provider)
  if (badKey !== undefined)
    return { check: 'provider', verdict: 'bad', found: `${name}: ${where}. ${badKey.what}`, fix: badKey.fix }
  const isMissing = apiKey === undefined && apiKeyVariable !== undefined && !isLocal(baseUrl)
  if (!isMissing) return { check: 'provider', verdict: 'ok', found }
  return { check: 'provider', verdict: 'warn', found, fix: `set ${apiKeyVariable}, or run: ${cmd('login')} ${name}` }
}

/** A server on this machine rarely needs a key. */
const isLocal = (baseUrl = 'http://localhost'): boolean => /^https?:\/\/(?:localhost|127\.|\[::1\])/.test(baseUrl)
