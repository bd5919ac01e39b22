/** Real MCP servers from npm that start without a network, with what each wants to be given. No key in here works. */

export type RealServer = {
  readonly package: string
  readonly version: string
  readonly args?: readonly string[]
  readonly env?: Readonly<Record<string, string>>
}

const KEY = 'not-a-key'

export const SERVERS: readonly RealServer[] = [
  { package: '@upstash/context7-mcp', version: '4.1.1' },
  { package: 'mongodb-mcp-server', version: '3.0.4' },
  { package: '@playwright/mcp', version: '0.0.83', args: ['--headless'] },
  { package: 'chrome-devtools-mcp', version: '1.11.0', args: ['--headless'] },
  { package: 'firecrawl-mcp', version: '3.26.0', env: { FIRECRAWL_API_KEY: KEY } },
  { package: '@notionhq/notion-mcp-server', version: '2.5.2', env: { NOTION_TOKEN: KEY } },
  { package: 'mcp-server-kubernetes', version: '4.1.7' },
  { package: '@sentry/mcp-server', version: '0.39.0', args: [`--access-token=${KEY}`] },
  { package: '@modelcontextprotocol/server-sequential-thinking', version: '2026.8.31' },
  { package: 'square-mcp-server', version: '0.1.2', args: ['start'], env: { ACCESS_TOKEN: KEY, SANDBOX: 'true' } },
  { package: 'hostinger-api-mcp', version: '1.63.2', env: { API_TOKEN: KEY } },
  { package: 'tavily-mcp', version: '0.2.22', env: { TAVILY_API_KEY: KEY } },
  { package: 'exa-mcp-server', version: '3.4.1', env: { EXA_API_KEY: KEY } },
  { package: '@brave/brave-search-mcp-server', version: '2.1.4', env: { BRAVE_API_KEY: KEY } },
  { package: 'figma-developer-mcp', version: '0.13.2', args: ['--stdio'], env: { FIGMA_API_KEY: KEY } },
  { package: '@eslint/mcp', version: '0.3.13' },
  { package: '@modelcontextprotocol/server-github', version: '2025.4.8', env: { GITHUB_PERSONAL_ACCESS_TOKEN: KEY } },
  {
    package: '@modelcontextprotocol/server-slack',
    version: '2025.4.25',
    env: { SLACK_BOT_TOKEN: KEY, SLACK_TEAM_ID: 'T0' },
  },
  { package: '@modelcontextprotocol/server-postgres', version: '0.6.2', args: ['postgres://127.0.0.1:1/none'] },
  { package: '@modelcontextprotocol/server-puppeteer', version: '2025.5.12' },
]
