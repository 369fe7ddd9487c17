// A headless Chromium for the tests, steered through a unix socket: one JSON
// array per line, [method, arguments...]; replies in order, [result] or
// [null, error], as in Dsem::Control. Each connection has a window of its own.
// It ends with the first connection, or, for many, with its parent.
//
// Started by Dsem::Browser and Dsem::Suite::Browser: node browser.mjs <socket>
// <directory of node_modules> [<parent>]

import { createServer } from 'node:net';
import { createInterface } from 'node:readline';
import { createRequire } from 'node:module';

const [socket, modules, parent] = process.argv.slice(2);
const require = createRequire(`${modules}/`);
const { chromium } = require('playwright-core');
const axe = require('axe-core').source;

// the flags after the first keep it from looking for other hosts
const FLAGS = ['--no-sandbox', '--disable-gpu', '--disable-quic',
    '--no-first-run', '--disable-background-networking',
    '--disable-component-update', '--disable-sync'];
const DEADLINE = 10000;     // ms, of a click

const starting = chromium.launch({
    executablePath: process.env.DSEM_CHROMIUM || '/usr/bin/chromium',
    args: FLAGS, handleSIGTERM: false,
});

async function end() {
    await (await starting).close();
    process.exit(0);
}

// what a connection can ask for
function window() {
    let page, problems;

    // with nothing remembered
    async function open(url, width, height, scheme) {
        const browser = await starting;
        await close();
        const context = await browser.newContext({
            viewport: { width, height }, colorScheme: scheme,
            reducedMotion: 'reduce',
        });
        page = await context.newPage();
        page.setDefaultTimeout(DEADLINE);
        problems = [];
        page.on('pageerror', (error) => problems.push(`${error}`));
        page.on('console', (message) => {
            if (['error', 'warning'].includes(message.type())) {
                problems.push(message.text());
            }
        });
        await page.goto(url);
    }

    const close = () => page?.context().close();

    // serious findings about accessibility, one line each
    async function findings() {
        if (!await page.evaluate('window.axe')) await page.evaluate(axe);
        const { violations } = await page.evaluate(
            "axe.run({ resultTypes: ['violations'] })");
        return violations
            .filter((one) => ['serious', 'critical'].includes(one.impact))
            .map((one) => `${one.id}: ${one.nodes.length} times, first ${
                one.nodes[0].html.slice(0, 200)}`);
    }

    return {
        open, close, findings,
        size: (width, height) => page.setViewportSize({ width, height }),
        scheme: (scheme) => page.emulateMedia({ colorScheme: scheme }),
        evaluate: (text) => page.evaluate(text),
        click: (selector) => page.click(selector),
        fill: (selector, text) => page.fill(selector, text),
        press: (key) => page.keyboard.press(key),
        screenshot: async (path) => { await page.screenshot({ path }); },
        // errors of the console, refused by the policy included
        problems: () => problems.splice(0),
    };
}

async function answer(methods, line) {
    const [method, ...args] = JSON.parse(line);
    try {
        return [await methods[method](...args) ?? null];
    } catch (error) {
        return [null, `${error.message}`];
    }
}

createServer(async (connection) => {
    const methods = window();
    try {
        for await (const line of createInterface(connection)) {
            const reply = await answer(methods, line);
            connection.write(`${JSON.stringify(reply)}\n`);
        }
    } catch {
        // a test that was killed
    }
    if (!parent) end();
    await methods.close();
}).listen(socket);

if (parent) {
    process.on('SIGTERM', end);
    setInterval(() => { if (process.ppid !== Number(parent)) end(); }, 1000);
}
