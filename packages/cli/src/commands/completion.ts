/** `breakfall completion`: scripts for shells, generated from the commands themselves. */
import type { Command } from 'commander'
import { type CommandRow } from '../command-line/command.ts'

export const SHELLS = ['bash', 'zsh', 'fish'] as const
export type Shell = (typeof SHELLS)[number]

export const COMPLETION: CommandRow = {
  usage: 'completion <shell>',
  about: 'print a completion script for your shell',
  examples: [
    'breakfall completion bash > ~/.local/share/bash-completion/completions/breakfall',
    'breakfall completion zsh > ~/.zfunc/_breakfall      with ~/.zfunc in fpath',
    'breakfall completion fish > ~/.config/fish/completions/breakfall.fish',
  ],
  args: { shell: { about: 'your shell', choices: SHELLS } },
  print: (made) => completionScript(SHELLS.find((shell) => shell === made.args[0]) ?? 'bash', made.parent ?? made),
}

type Word = { readonly word: string; readonly about: string }
type Flag = Word & { readonly takesValue: boolean; readonly choices: readonly string[] }
type Node = {
  /** `config show`; empty for the program itself. */
  readonly path: string
  readonly children: readonly Word[]
  readonly flags: readonly Flag[]
  /** Values of its first argument. */
  readonly choices: readonly string[]
}

export function completionScript(shell: Shell, program: Command): string {
  const nodes = walk(program, [])
  switch (shell) {
    case 'bash':
      return bash(nodes)
    case 'zsh':
      return zsh(nodes)
    case 'fish':
      return fish(nodes)
  }
}

// ---- details, in the order they are used above ----

function walk(command: Command, path: readonly string[]): readonly Node[] {
  const visible = command
    .createHelp()
    .visibleCommands(command)
    .filter((child) => child.name() !== 'help')
  const flags = command.options
    .filter((option) => option.long !== undefined && !option.hidden)
    .map((option) => ({
      word: option.long ?? '',
      about: option.description,
      takesValue: option.required || option.optional,
      choices: option.argChoices ?? [],
    }))
  const node = {
    path: path.join(' '),
    children: visible.map((child) => ({ word: child.name(), about: child.description() })),
    flags: [...flags, { word: '--help', about: 'display help for command', takesValue: false, choices: [] }],
    choices: command.registeredArguments[0]?.argChoices ?? [],
  }
  return [node, ...visible.flatMap((child) => walk(child, [...path, child.name()]))]
}

/** `at` becomes the longest known command; the words after it are its arguments. */
function bash(nodes: readonly Node[]): string {
  return `_breakfall() {
  local at='' next word words=''
  for word in "\${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    next="\${at:+$at }$word"
    case "$next" in ${pathsPattern(nodes)}) at="$next" ;; esac
  done
  case "$at \${COMP_WORDS[COMP_CWORD-1]}" in
${valueCases(nodes, (choices) => `words='${choices.join(' ')}'`)}
    *) case "$at" in
${nodes.map((node) => `      '${node.path}') words='${wordsOf(node).join(' ')}' ;;`).join('\n')}
    esac ;;
  esac
  COMPREPLY=( $(compgen -W "$words" -- "\${COMP_WORDS[COMP_CWORD]}") )
}
complete -o default -F _breakfall breakfall
`
}

function zsh(nodes: readonly Node[]): string {
  const described = (node: Node): string =>
    [
      ...[...node.children, ...node.flags].map(({ word, about }) => quoted(`${word}:${about}`)),
      ...node.choices.map(quoted),
    ].join(' ')
  return `#compdef breakfall
_breakfall() {
  local at='' next word
  local -a found
  for word in "\${(@)words[2,CURRENT-1]}"; do
    next="\${at:+$at }$word"
    case "$next" in ${pathsPattern(nodes)}) at="$next" ;; esac
  done
  case "$at \${words[CURRENT-1]}" in
${valueCases(nodes, (choices) => (choices.length === 0 ? '_files; return' : `compadd -- ${choices.join(' ')}; return`))}
  esac
  case "$at" in
${nodes.map((node) => `    '${node.path}') found=(${described(node)}) ;;`).join('\n')}
  esac
  _describe breakfall found || _files
}
if [ "$funcstack[1]" = _breakfall ]; then _breakfall "$@"; else compdef _breakfall breakfall; fi
`
}

function fish(nodes: readonly Node[]): string {
  return (
    nodes
      .flatMap((node) => {
        const start = `complete -c breakfall -n ${quoted(fishCondition(node))}`
        return [
          ...node.children.map(({ word, about }) => `${start} -f -a ${word} -d ${quoted(about)}`),
          ...node.choices.map((choice) => `${start} -f -a ${choice}`),
          ...node.flags.map(({ word, about, takesValue, choices }) => {
            const value = choices.length > 0 ? ` -x -a ${quoted(choices.join(' '))}` : takesValue ? ' -r' : ''
            return `${start} -l ${word.slice(2)}${value} -d ${quoted(about)}`
          }),
        ]
      })
      .join('\n') + '\n'
  )
}

const pathsPattern = (nodes: readonly Node[]): string =>
  nodes
    .filter(({ path }) => path !== '')
    .map(({ path }) => `'${path}'`)
    .join('|')

/** After a flag that takes a value: its choices, or the shell's own completion. */
function valueCases(nodes: readonly Node[], act: (choices: readonly string[]) => string): string {
  return nodes
    .flatMap(({ path, flags }) => flags.filter(({ takesValue }) => takesValue).map((flag) => ({ path, ...flag })))
    .map(({ path, word, choices }) => `    '${path} ${word}') ${act(choices)} ;;`)
    .join('\n')
}

const wordsOf = ({ children, flags, choices }: Node): readonly string[] => [
  ...[...children, ...flags].map(({ word }) => word),
  ...choices,
]

/** True when all commands of the path are typed and none of its children. `show` exists twice, so the parent is checked as well. */
function fishCondition({ path, children }: Node): string {
  const parts = path === '' ? [] : path.split(' ')
  if (parts.length === 0) return '__fish_use_subcommand'
  const seen = parts.map((part) => `__fish_seen_subcommand_from ${part}`)
  if (children.length > 0) seen.push(`not __fish_seen_subcommand_from ${children.map(({ word }) => word).join(' ')}`)
  if (parts.length === 1 && parts[0] === 'show') seen.push('not __fish_seen_subcommand_from config')
  return seen.join('; and ')
}

const quoted = (text: string): string => `'${text.replace(/['\\]/g, (c) => (c === "'" ? `'\\''` : c))}'`
