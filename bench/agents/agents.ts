/** The coding agents that the suite runs: which package, which API, and how each learns its base URL. One row each. */
import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'

export type Launch = {
  readonly args: readonly string[]
  readonly env?: Readonly<Record<string, string>>
  /** Run first, for agents that store their settings with a command. */
  readonly before?: readonly string[]
}

export type AgentRow = {
  readonly name: string
  readonly package: string
  readonly version: string
  readonly bin: string
  readonly api: 'openai-chat' | 'openai-responses' | 'anthropic-messages' | 'gemini'
  /** Writes the agent's settings into its home folder. `url` ends in /v1. */
  launch(url: string, home: string): Launch
}

const PROMPT = 'Follow the plan step by step and run each command.'
const KEY = 'breakfall-trial'
const MODEL = 'trial'

const originOf = (url: string): string => new URL(url).origin

function writeSettings(home: string, path: string, settings: unknown): void {
  const file = join(home, path)
  mkdirSync(dirname(file), { recursive: true })
  writeFileSync(file, typeof settings === 'string' ? settings : JSON.stringify(settings))
}

/** opencode and its fork kilo take any provider of the AI SDK. */
function openCodeSettings(home: string, folder: string, npm: string, url: string): void {
  const provider = {
    trial: { npm, name: 'Trial', options: { baseURL: url, apiKey: KEY }, models: { [MODEL]: { name: MODEL } } },
  }
  const settings = {
    provider,
    model: `trial/${MODEL}`,
    small_model: `trial/${MODEL}`,
    autoupdate: false,
    permission: { bash: 'allow', edit: 'allow' },
  }
  writeSettings(home, `.config/${folder}/${folder}.json`, settings)
}

const openCode = (name: string, npm: string, api: AgentRow['api']): AgentRow => ({
  name,
  package: 'opencode-ai',
  version: '1.18.33',
  bin: 'opencode',
  api,
  launch: (url, home) => {
    openCodeSettings(home, 'opencode', npm, url)
    return { args: ['run', '-m', `trial/${MODEL}`, PROMPT] }
  },
})

const pi = (name: string, wire: string, api: AgentRow['api']): AgentRow => ({
  name,
  package: '@earendil-works/pi-coding-agent',
  version: '0.87.1',
  bin: 'pi',
  api,
  launch: (url, home) => {
    const models = [{ id: MODEL, name: MODEL, contextWindow: 100_000, maxTokens: 4000 }]
    const baseUrl = api === 'anthropic-messages' ? originOf(url) : url
    writeSettings(home, '.pi/agent/models.json', { providers: { trial: { baseUrl, api: wire, apiKey: KEY, models } } })
    return { args: ['-p', PROMPT, '--provider', 'trial', '--model', MODEL] }
  },
})

export const AGENTS: readonly AgentRow[] = [
  {
    name: 'codex',
    package: '@openai/codex',
    version: '0.166.0',
    bin: 'codex',
    api: 'openai-responses',
    launch: (url, home) => {
      const provider = `[model_providers.trial]\nname = "trial"\nbase_url = "${url}"\nenv_key = "OPENAI_API_KEY"\nwire_api = "responses"\n`
      writeSettings(home, '.codex/config.toml', `model = "gpt-5"\nmodel_provider = "trial"\n\n${provider}`)
      return { args: ['exec', '--skip-git-repo-check', '--dangerously-bypass-approvals-and-sandbox', PROMPT] }
    },
  },
  {
    name: 'Claude Code',
    package: '@anthropic-ai/claude-code',
    version: '2.1.325',
    bin: 'claude',
    api: 'anthropic-messages',
    launch: (url) => ({
      args: ['-p', PROMPT, '--allowedTools', 'Bash'],
      env: {
        ANTHROPIC_BASE_URL: originOf(url),
        DISABLE_AUTOUPDATER: '1',
        CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
      },
    }),
  },
  openCode('opencode, chat', '@ai-sdk/openai-compatible', 'openai-chat'),
  openCode('opencode, Responses', '@ai-sdk/openai', 'openai-responses'),
  openCode('opencode, messages', '@ai-sdk/anthropic', 'anthropic-messages'),
  {
    name: 'gemini-cli',
    package: '@google/gemini-cli',
    version: '0.61.0',
    bin: 'gemini',
    api: 'gemini',
    launch: (url, home) => {
      writeSettings(home, '.gemini/settings.json', { security: { auth: { selectedType: 'gemini-api-key' } } })
      return {
        args: ['-y', '-p', PROMPT, '-m', 'gemini-2.5-pro'],
        env: { GOOGLE_GEMINI_BASE_URL: originOf(url), GEMINI_CLI_TRUST_WORKSPACE: 'true' },
      }
    },
  },
  {
    name: 'qwen-code',
    package: '@qwen-code/qwen-code',
    version: '0.24.4',
    bin: 'qwen',
    api: 'openai-chat',
    launch: (url) => ({
      args: ['--auth-type', 'openai', '-y', '-p', PROMPT],
      env: { OPENAI_BASE_URL: url, OPENAI_MODEL: MODEL },
    }),
  },
  pi('pi, chat', 'openai-completions', 'openai-chat'),
  pi('pi, Responses', 'openai-responses', 'openai-responses'),
  {
    name: 'kilo',
    package: '@kilocode/cli',
    version: '7.7.7',
    bin: 'kilo',
    api: 'openai-chat',
    launch: (url, home) => {
      for (const folder of ['kilo', 'opencode']) openCodeSettings(home, folder, '@ai-sdk/openai-compatible', url)
      return { args: ['run', '--auto', '-m', `trial/${MODEL}`, PROMPT] }
    },
  },
  {
    name: 'cline',
    package: 'cline',
    version: '3.0.65',
    bin: 'cline',
    api: 'openai-chat',
    launch: (url) => ({
      before: ['auth', '-p', 'openai-compatible', '-b', url, '-k', KEY, '-m', MODEL],
      args: ['--auto-approve', 'true', PROMPT],
      env: { CLINE_NO_AUTO_UPDATE: '1' },
    }),
  },
  {
    name: 'Continue',
    package: '@continuedev/cli',
    version: '1.5.47',
    bin: 'cn',
    api: 'openai-chat',
    launch: (url, home) => {
      const model = `  - name: ${MODEL}\n    provider: openai\n    model: ${MODEL}\n    apiBase: ${url}\n    apiKey: ${KEY}\n    capabilities: [tool_use]\n    roles: [chat]\n`
      writeSettings(home, 'config.yaml', `name: trial\nversion: 0.0.1\nschema: v1\nmodels:\n${model}`)
      return { args: ['--config', join(home, 'config.yaml'), '--auto', '-p', PROMPT] }
    },
  },
  {
    name: 'Copilot CLI',
    package: '@github/copilot',
    version: '1.0.102',
    bin: 'copilot',
    api: 'openai-chat',
    launch: (url) => ({
      args: ['-p', PROMPT, '--allow-all-tools', '--no-color'],
      env: {
        COPILOT_PROVIDER_BASE_URL: url,
        COPILOT_PROVIDER_TYPE: 'openai',
        COPILOT_PROVIDER_API_KEY: KEY,
        COPILOT_MODEL: MODEL,
        COPILOT_OFFLINE: 'true',
      },
    }),
  },
]
