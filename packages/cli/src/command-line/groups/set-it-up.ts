/** What is set up once: `config`, `login`, `logout`, `mcp`, `completion`. */
import type { LoginOptions } from '../../commands/mcp-login.ts'
import { command, type CommandFamily, type CommandGroup } from '../command.ts'
import { completionScript, SHELLS } from '../completion.ts'

const CONFIG: CommandFamily = {
  name: 'config',
  about: 'show the configuration',
  commands: [
    command<{ readonly origin?: boolean }>({
      usage: 'show',
      about: 'show what is set',
      examples: ['breakfall config show --origin           what is set, where, and which model a run would use'],
      keeps: null,
      flags: (show) => show.option('--origin', 'and its origin'),
      run: async (context, options) => (await import('../../commands/config.ts')).configCommand(context, options),
    }),
    {
      usage: 'example',
      about: 'print a commented config file to start from',
      examples: [
        'breakfall config example                 print it',
        'breakfall config example --write         write it as your config file; never overwrites one',
      ],
      flags: (example) => example.option('--write', 'write it as your config file, unless you have one'),
      print: async (made) =>
        (await import('../../commands/config.ts')).exampleText(made.opts<{ readonly write?: boolean }>()),
    },
  ],
}

const MCP: CommandFamily = {
  name: 'mcp',
  about: 'servers of tools (Model Context Protocol)',
  commands: [
    command({
      usage: 'list',
      about: 'list the servers and how they are',
      examples: ['breakfall mcp list'],
      run: async (context) => (await import('../../commands/mcp.ts')).mcpList(context),
    }),
    command({
      usage: 'tools <server>',
      about: 'list the tools of a server',
      examples: ['breakfall mcp tools files'],
      run: async (context, _options, [name = '']) => (await import('../../commands/mcp.ts')).mcpTools(context, name),
    }),
    command({
      usage: 'call <server> <tool> [arguments]',
      about: 'call a tool once',
      examples: ['breakfall mcp call files read_file \'{"path":"/tmp/a"}\''],
      run: async (context, _options, [name = '', tool = '', given]) =>
        (await import('../../commands/mcp.ts')).mcpCall(context, name, tool, given),
    }),
    command({
      usage: 'logs <server>',
      about: "show a server's last lines",
      examples: ['breakfall mcp logs files'],
      run: async (context, _options, [name = '']) => (await import('../../commands/mcp.ts')).mcpLogs(context, name),
    }),
    command({
      usage: 'restart <server>',
      about: 'restart a server, or connect to it again',
      examples: ['breakfall mcp restart files'],
      run: async (context, _options, [name = '']) => (await import('../../commands/mcp.ts')).mcpRestart(context, name),
    }),
    command<LoginOptions>({
      usage: 'login <server>',
      about: 'log in to a server that asks for it (OAuth)',
      examples: [
        'breakfall mcp login docs',
        'breakfall mcp login docs --print             over SSH: open the page yourself',
      ],
      flags: (login) =>
        login
          .option('--client-id <id>', 'your client id, if the server does not register clients automatically')
          .option('--print', 'print the address instead of opening a browser'),
      run: async (context, options, [name = '']) =>
        (await import('../../commands/mcp-login.ts')).mcpLogin(context, name, options),
    }),
    command({
      usage: 'logout <server>',
      about: 'forget the login to a server',
      examples: ['breakfall mcp logout docs'],
      run: async (context, _options, [name = '']) =>
        (await import('../../commands/mcp-login.ts')).mcpLogout(context, name),
    }),
    command({
      usage: 'import <file>',
      about: 'add the servers of a JSON file to your configuration',
      examples: ['breakfall mcp import ~/.config/agent/mcp.json   a file with "mcpServers"'],
      run: async (context, _options, [file = '']) =>
        (await import('../../commands/mcp-import.ts')).mcpImport(context, file),
    }),
  ],
}

export const SET_IT_UP: CommandGroup = {
  heading: 'Set it up:',
  commands: [
    CONFIG,
    command({
      usage: 'login <provider>',
      about: "store a provider's key, from a prompt or standard input",
      examples: ['breakfall login cloud', 'pass show openai | breakfall login cloud'],
      keeps: null,
      run: async (context, _options, [name = '']) =>
        (await import('../../commands/login.ts')).loginCommand(context, name),
    }),
    command({
      usage: 'logout <provider>',
      about: "remove a provider's stored key",
      examples: ['breakfall logout cloud'],
      keeps: null,
      run: async (context, _options, [name = '']) =>
        (await import('../../commands/login.ts')).logoutCommand(context, name),
    }),
    MCP,
    {
      usage: 'completion <shell>',
      about: 'print a completion script for your shell',
      examples: [
        'breakfall completion bash > ~/.local/share/bash-completion/completions/breakfall',
        'breakfall completion zsh > ~/.zfunc/_breakfall      with ~/.zfunc in fpath',
        'breakfall completion fish > ~/.config/fish/completions/breakfall.fish',
      ],
      args: { shell: { about: 'your shell', choices: SHELLS } },
      print: (made) => completionScript(SHELLS.find((shell) => shell === made.args[0]) ?? 'bash', made.parent ?? made),
    },
  ],
}
